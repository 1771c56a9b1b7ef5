//! The guard's own side: a process that starts services, keeps their output and ends them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, PipeReader, Write};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::logs;
use super::{Report, Request, Start};
use crate::sys::family::{self, Children};
use crate::sys::fs;
use crate::sys::process;
use crate::sys::signal::{self, ChildEnds};

/// How long to wait for the rest of an ended service's output: a process that it left behind may hold the pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// The whole life of a guard process.
pub(crate) fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell where standard error is closed.
            let _ = writeln!(io::stderr(), "error: the guard process: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Input {
    Request(Request),
    /// The tool is gone, or says what no tool says.
    Closed,
    LineSeen(String),
    /// A service has ended and its output is kept.
    Ended {
        name: String,
        status: String,
    },
}

async fn serve() -> io::Result<()> {
    signal::outlive_interrupts()?;
    family::adopt_orphans()?;
    let mut child_ends = ChildEnds::listen()?;
    let (inputs, mut next_input) = mpsc::unbounded_channel();
    let mut guard =
        Server { children: Children::default(), services: BTreeMap::new(), inputs: inputs.clone() };
    thread::Builder::new().name("requests".to_owned()).spawn(move || read_requests(&inputs))?;

    let mut heard = tell(&Report::Ready);
    while heard {
        heard = tokio::select! {
            Some(input) = next_input.recv() => match input {
                Input::Request(Request::Start(start)) => tell(&guard.start(start)),
                Input::Request(Request::End) | Input::Closed => break,
                Input::LineSeen(name) => tell(&Report::LineSeen { name }),
                Input::Ended { name, status } => tell(&Report::Ended { name, status }),
            },
            () = child_ends.recv() => {
                guard.reap();
                true
            }
        };
    }
    let left = guard.end().await;
    tell(&Report::AllEnded { left });
    Ok(())
}

fn read_requests(inputs: &mpsc::UnboundedSender<Input>) {
    for line in io::stdin().lock().lines() {
        let request = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let Some(request) = request else { break };
        if inputs.send(Input::Request(request)).is_err() {
            return;
        }
    }
    let _ = inputs.send(Input::Closed);
}

/// Whether the tool still listens.
fn tell(report: &Report) -> bool {
    let mut line = serde_json::to_vec(report).expect("reports are plain data");
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line).and_then(|()| output.flush()).is_ok()
}

struct Service {
    name: String,
    /// Resolves when its output is kept.
    output_kept: oneshot::Receiver<()>,
}

struct Server {
    children: Children,
    services: BTreeMap<u32, Service>,
    inputs: mpsc::UnboundedSender<Input>,
}

impl Server {
    fn start(&mut self, start: Start) -> Report {
        let name = start.name.clone();
        match self.try_start(start) {
            Ok(pid) => Report::Started { name, pid },
            Err(error) => Report::NotStarted { name, error: error.to_string() },
        }
    }

    fn try_start(&mut self, start: Start) -> io::Result<u32> {
        // Else it would read as if the program were missing.
        if !start.dir.is_dir() {
            return Err(io::Error::other(format!(
                "there is no folder `{}` to start it in",
                start.dir.display()
            )));
        }
        let log = fs::append_private(&start.log)?;
        // One pipe for both streams keeps the order of what is written.
        let (output, writer) = io::pipe()?;
        let mut command = process::unwatched_command(&start.program);
        command.args(&start.args).env_clear().envs(&start.env).current_dir(&start.dir);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let pid = self.children.spawn(&mut command)?;
        // Else the guard itself would keep the pipe open.
        drop(command);
        let (kept, output_kept) = oneshot::channel();
        self.services.insert(pid, Service { name: start.name.clone(), output_kept });
        self.keep_output(start, output, log, kept)?;
        Ok(pid)
    }

    fn keep_output(
        &self,
        start: Start,
        output: PipeReader,
        log: std::fs::File,
        kept: oneshot::Sender<()>,
    ) -> io::Result<()> {
        let inputs = self.inputs.clone();
        let keep = move || {
            let secrets = start.secrets;
            let seen = || drop(inputs.send(Input::LineSeen(start.name.clone())));
            logs::copy(output, log, &secrets, start.wanted_line.as_deref(), seen);
            // Nobody waits for it while the service runs.
            let _ = kept.send(());
        };
        thread::Builder::new().name("output".to_owned()).spawn(keep)?;
        Ok(())
    }

    /// Takes notice of ended services; adopted processes among the ended ones are nobody's.
    fn reap(&mut self) {
        for (pid, status) in self.children.reap() {
            if let Some(Service { name, output_kept }) = self.services.remove(&pid) {
                let inputs = self.inputs.clone();
                tokio::spawn(async move {
                    let _ = timeout(LAST_OUTPUT, output_kept).await;
                    let _ = inputs.send(Input::Ended { name, status: status.to_string() });
                });
            }
        }
    }

    async fn end(self) -> Vec<u32> {
        let groups: Vec<u32> = self.services.keys().copied().collect();
        let left = family::end_all(&groups, |_, _| false);
        for service in self.services.into_values() {
            let _ = timeout(LAST_OUTPUT, service.output_kept).await;
        }
        left
    }
}
