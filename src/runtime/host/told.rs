//! Run by the tool: hello, one instruction, then events, until the work or the socket ends.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use super::run::{self, check_names};
use crate::model::event::{Event, Failure, FailureKind};
use crate::protocol::{Decoder, Frame, Hello, Instruction, VERSION};
use crate::runtime::engine::StopFlag;
use crate::runtime::scenario::Scenario;
use crate::sys::process;

/// How long the tool may take to answer a hello.
const ANSWER: Duration = Duration::from_secs(30);

/// Does what the tool says; `None` when the tool does not want this process: the token was used already, by the
/// process that this one inherited it from.
pub(super) fn serve(scenarios: Vec<Scenario>, socket: &str, token: String) -> Option<ExitCode> {
    let mut stream = TcpStream::connect(socket).ok()?;
    let hello = Hello {
        protocol: VERSION,
        library: env!("CARGO_PKG_VERSION").to_owned(),
        token,
        pid: std::process::id(),
    };
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.write_all(&Frame::Hello(hello).encode()).ok()?;
    let mut decoder = Decoder::default();
    let instruction = loop {
        match read_frame(&mut stream, &mut decoder) {
            Ok(Some(Frame::Instruction(instruction))) => break instruction,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    };
    stream.set_read_timeout(None).ok()?;
    let mut tell = {
        let mut stream = stream.try_clone().ok()?;
        move |event: Event| {
            if stream.write_all(&Frame::Event(Box::new(event)).encode()).is_err() {
                // Nobody is left to measure for.
                process::exit(1);
            }
        }
    };
    match *instruction {
        Instruction::List => list(&scenarios, &mut tell),
        Instruction::Run(plan) => {
            let stop = StopFlag::default();
            let flag = stop.clone();
            let listening =
                thread::Builder::new().name("tool".into()).spawn(move || listen(stream, decoder, &flag));
            if let Err(error) = listening {
                let message = format!("cannot start a thread: {error}");
                tell(Event::Failed(Failure { kind: FailureKind::Run, message }));
                return Some(ExitCode::FAILURE);
            }
            run::execute(scenarios, plan, &stop, &mut tell);
        }
    }
    Some(ExitCode::SUCCESS)
}

fn list(scenarios: &[Scenario], tell: &mut impl FnMut(Event)) {
    let infos = check_names(scenarios).and_then(|()| scenarios.iter().map(Scenario::info).collect());
    tell(match infos {
        Ok(infos) => Event::Listing(infos),
        Err(message) => Event::Failed(Failure { kind: FailureKind::Configuration, message }),
    });
}

/// Waits for a stop. When the tool is gone this process ends too, whatever its threads are doing.
fn listen(mut stream: TcpStream, mut decoder: Decoder, stop: &StopFlag) {
    loop {
        match read_frame(&mut stream, &mut decoder) {
            Ok(Some(Frame::Stop)) => stop.set(),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => process::exit(1),
        }
    }
}

/// The next frame; `None` at the end of the stream.
fn read_frame(stream: &mut TcpStream, decoder: &mut Decoder) -> io::Result<Option<Frame>> {
    let mut bytes = [0; 8192];
    loop {
        if let Some(frame) = decoder.next().map_err(io::Error::other)? {
            return Ok(Some(frame));
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => decoder.push(&bytes[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
