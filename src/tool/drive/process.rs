//! The scenario process and the conversation with it.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::DriveError;
use crate::model::event::{Event, Finished};
use crate::model::plan::{RunPlan, ScenarioInfo};
use crate::protocol::{Decoder, Frame, Hello, Instruction, SOCKET_ENV, TOKEN_ENV, VERSION};
use crate::sys::process;

/// How long a process may take from its start to its hello.
const HELLO: Duration = Duration::from_secs(30);
/// How long it may take to report after a stop, before it is killed.
const STOP: Duration = Duration::from_millis(2500);
/// How long it may take to end after its last word.
const END: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// For messages: `package::target`.
    pub(crate) target: String,
    pub(crate) executable: PathBuf,
    /// The package's folder, as `cargo bench` has it.
    pub(crate) folder: PathBuf,
}

/// Turns true when the process is to cut everything off.
pub(crate) type Stop = watch::Receiver<bool>;

/// Asks the process which scenarios it has.
pub(crate) async fn list(launch: &Launch) -> Result<Vec<ScenarioInfo>, DriveError> {
    let mut talk = Talk::begin(launch, Instruction::List, |_| {}).await?;
    loop {
        match talk.next().await? {
            Some(Event::Listing(infos)) => {
                talk.end().await;
                return Ok(infos);
            }
            Some(Event::Failed(failure)) => return Err(DriveError::Failed { target: talk.target, failure }),
            Some(_) => {}
            None => return Err(talk.died().await),
        }
    }
}

/// Has the process carry out `plan`; hands every event on, and its process id before it can do anything.
///
/// The last event is in the result: how it finished, or why it failed.
pub(crate) async fn run(
    launch: &Launch,
    plan: RunPlan,
    mut stop: Stop,
    started: impl FnOnce(u32),
    mut on_event: impl FnMut(Event),
) -> Result<Finished, DriveError> {
    let stopped_in_vain = async {
        match stop.clone().wait_for(|stop| *stop).await {
            Ok(_) => sleep(STOP).await,
            Err(_) => std::future::pending().await,
        }
    };
    let mut talk = tokio::select! {
        begun = Talk::begin(launch, Instruction::Run(plan), started) => begun?,
        () = stopped_in_vain => {
            return Err(DriveError::Silent { target: launch.target.clone(), within: STOP });
        }
    };
    let mut give_up: Option<Instant> = None;
    loop {
        let patience = async {
            match give_up {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = talk.next() => match event? {
                Some(Event::Finished(finished)) => {
                    talk.end().await;
                    return Ok(finished);
                }
                Some(Event::Failed(failure)) => return Err(DriveError::Failed { target: talk.target, failure }),
                Some(event) => on_event(event),
                None => return Err(talk.died().await),
            },
            // A sender that is gone stops nothing.
            Ok(_) = stop.wait_for(|stop| *stop), if give_up.is_none() => {
                talk.stop().await?;
                give_up = Some(Instant::now() + STOP);
            }
            () = patience => {
                // The end of a process that does not let itself be killed is not waited for here.
                let _ = talk.child.start_kill();
                return Err(talk.died().await);
            }
        }
    }
}

/// A process that has said hello.
struct Talk {
    target: String,
    child: Child,
    stream: TcpStream,
    decoder: Decoder,
    bytes: Box<[u8]>,
}

impl Talk {
    async fn begin(
        launch: &Launch,
        instruction: Instruction,
        started: impl FnOnce(u32),
    ) -> Result<Self, DriveError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(DriveError::Socket)?;
        let address = listener.local_addr().map_err(DriveError::Socket)?;
        let token = format!("{:032x}", fastrand::u128(..));
        let mut command = process::command(&launch.executable);
        command
            .current_dir(&launch.folder)
            // As `cargo bench` has it, whatever package's this tool inherited.
            .env("CARGO_MANIFEST_DIR", &launch.folder)
            .env(SOCKET_ENV, address.to_string())
            .env(TOKEN_ENV, &token)
            .stdin(Stdio::null())
            // What the scenario prints is no part of the report, which is on stdout.
            .stdout(io::stderr())
            .kill_on_drop(true);
        // Ctrl-C in a terminal goes to its whole group; this process is told by the tool, once.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|source| DriveError::Spawn { executable: launch.executable.clone(), source })?;
        if let Some(pid) = child.id() {
            started(pid);
        }
        let target = launch.target.clone();
        let (mut stream, decoder, hello) = tokio::select! {
            // A process that says hello and ends at once has still said hello.
            biased;
            met = timeout(HELLO, meet(&listener, &token)) => match met {
                Ok(met) => met?,
                Err(_) => return Err(DriveError::Silent { target, within: HELLO }),
            },
            status = child.wait() => {
                let status = status.map_err(|source| DriveError::Connection { target: target.clone(), source })?;
                return Err(match status.code() {
                    Some(_) => DriveError::NoHello { target, status },
                    None => DriveError::Died { target, status },
                });
            }
        };
        if hello.protocol != VERSION {
            return Err(DriveError::Version {
                target,
                theirs: hello.library,
                their_protocol: hello.protocol,
                ours: env!("CARGO_PKG_VERSION"),
                our_protocol: VERSION,
            });
        }
        send(&mut stream, &target, &Frame::Instruction(Box::new(instruction))).await?;
        Ok(Self { target, child, stream, decoder, bytes: vec![0; 64 * 1024].into() })
    }

    /// The next event; `None` when the process has closed the connection. Cancel safe.
    async fn next(&mut self) -> Result<Option<Event>, DriveError> {
        loop {
            let frame = self.decoder.next();
            match frame.map_err(|source| DriveError::Frame { target: self.target.clone(), source })? {
                Some(Frame::Event(event)) => return Ok(Some(*event)),
                Some(_) => continue,
                None => {}
            }
            match self.stream.read(&mut self.bytes).await {
                Ok(0) => return Ok(None),
                Ok(n) => self.decoder.push(&self.bytes[..n]),
                // A killed process's socket is reset where bytes were under way.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(source) => return Err(DriveError::Connection { target: self.target.clone(), source }),
            }
        }
    }

    async fn stop(&mut self) -> Result<(), DriveError> {
        send(&mut self.stream, &self.target, &Frame::Stop).await
    }

    /// Waits for the end of a process that has said its last word, and kills it where it does not come.
    async fn end(mut self) {
        if timeout(END, self.child.wait()).await.is_err() {
            // It is dropped next, and thereby killed a second time, if this fails.
            let _ = self.child.kill().await;
        }
    }

    async fn died(mut self) -> DriveError {
        if timeout(END, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        match self.child.wait().await {
            Ok(status) => DriveError::Died { target: self.target, status },
            Err(source) => DriveError::Connection { target: self.target, source },
        }
    }
}

async fn send(stream: &mut TcpStream, target: &str, frame: &Frame) -> Result<(), DriveError> {
    stream
        .write_all(&frame.encode())
        .await
        .map_err(|source| DriveError::Connection { target: target.to_owned(), source })
}

/// The connection that knows the token; others are closed.
async fn meet(listener: &TcpListener, token: &str) -> Result<(TcpStream, Decoder, Hello), DriveError> {
    loop {
        let (mut stream, _) = listener.accept().await.map_err(DriveError::Socket)?;
        let mut decoder = Decoder::default();
        let hello = timeout(HELLO, hello(&mut stream, &mut decoder)).await;
        if let Ok(Some(hello)) = hello
            && hello.token == token
        {
            return Ok((stream, decoder, hello));
        }
    }
}

async fn hello(stream: &mut TcpStream, decoder: &mut Decoder) -> Option<Hello> {
    let mut bytes = [0; 4096];
    loop {
        match decoder.next().ok()? {
            Some(Frame::Hello(hello)) => return Some(hello),
            Some(_) => {}
            None => {
                let n = stream.read(&mut bytes).await.ok().filter(|n| *n > 0)?;
                decoder.push(&bytes[..n]);
            }
        }
    }
}
