//! The benchmark's server as a process of its own: started, asked, ended.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::process;

/// For the connections of a contestant that has ended: the kernel closes them with the process.
const CLOSES_WITHIN: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// It ends when its standard input closes, so also if this process is killed.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(root: &Path) -> Result<Self> {
        let arguments = ["--release", "--package", "xtask", "--bin", "xtask", "--features", "server"];
        let program = process::build(root, "xtask", &arguments)?;
        let mut command = process::program(program, root);
        let mut process = command
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the server")?;
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("the server has no standard output")?);
        let mut server = Self { process, questions, answers, address: String::new() };
        server.address = server.answer().context("the server did not say where it listens")?;
        Ok(server)
    }

    /// Forgets what was seen so far, once the connections of whoever came before have closed.
    pub(super) fn begin(&mut self) -> Result<()> {
        let deadline = Instant::now() + CLOSES_WITHIN;
        loop {
            match self.ask("open")?.as_str() {
                "0" => return self.ask("begin").map(drop),
                open if Instant::now() > deadline => bail!("{open} connections to the server stay open"),
                _ => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Begins as `begin` does, and remembers each arrival.
    pub(super) fn record(&mut self) -> Result<()> {
        self.begin()?;
        self.ask("record").map(drop)
    }

    /// How long after the beginning the first request arrived.
    pub(super) fn first_arrival(&mut self) -> Result<Duration> {
        let answer = self.ask("first")?;
        ensure!(!answer.is_empty(), "no request arrived");
        Ok(Duration::from_nanos(answer.parse().context("the server's first arrival is no number")?))
    }

    /// Nanoseconds of each arrival since `record`.
    pub(super) fn arrivals(&mut self) -> Result<Vec<u64>> {
        let answer = self.ask("arrivals")?;
        let arrivals = answer.split_whitespace().map(str::parse).collect::<Result<_, _>>();
        arrivals.context("the server's arrivals are not numbers")
    }

    /// The most connections that were open at once.
    pub(super) fn connections(&mut self) -> Result<u64> {
        self.ask("connections")?.parse().context("the server's count of connections is no number")
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        let input = self.questions.as_mut().context("the server has no standard input")?;
        writeln!(input, "{question}")
            .and_then(|()| input.flush())
            .context("could not ask the server: it has ended")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).context("could not read what the server answered")?;
        ensure!(read > 0, "the server has ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It may have ended already; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
