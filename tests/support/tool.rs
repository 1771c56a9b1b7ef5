//! `cargo loadtest` as a process of its own in the fixture workspace `robust`, and everything that it starts.
//!
//! All of them carry a variable of their own in the environment, by which they are found in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const MARKER: &str = "ROBUST_MARKER";

/// Nothing that a test waits for takes that long, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The fixture workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/robust")
}

/// The target folder that fixture workspaces share.
pub fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("fixtures")
}

/// A call of the tool that is not started yet.
pub struct Call {
    command: Command,
    marker: String,
}

/// `cargo-loadtest loadtest ARGUMENTS`, as cargo calls it.
pub fn call(arguments: &[&str]) -> Call {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let marker = format!("m{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-loadtest"));
    command
        .arg("loadtest")
        .args(arguments)
        .current_dir(workspace())
        .env("CARGO_TARGET_DIR", target())
        .env(MARKER, &marker)
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let inherited = std::env::vars().map(|(name, _)| name);
    inherited.filter(|name| name.starts_with("OTEL_") || name.starts_with("LOADTEST_")).for_each(|name| {
        command.env_remove(name);
    });
    Call { command, marker }
}

/// `cargo loadtest run ARGUMENTS`, with everything built before.
pub fn run(arguments: &[&str]) -> Call {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let ended = call(&["run", "--no-run", "--profile", "family", "--locked"]).finish();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    });
    call(&[&["run", "--locked"], arguments].concat())
}

impl Call {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// A word that no other call has.
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// Adds `--base-url` for `server`, with the marker in its path, by which the run's folder is found.
    pub fn against(mut self, server: &str) -> Self {
        self.command.args(["--base-url", &format!("{server}/{}", self.marker)]);
        self
    }

    pub fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let said = Arc::new(Said::default());
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let readers = vec![
            thread::spawn({
                let said = said.clone();
                let mut stdout = stdout;
                move || {
                    let mut text = Vec::new();
                    stdout.read_to_end(&mut text).unwrap();
                    said.text.lock().unwrap().0 = String::from_utf8_lossy(&text).into_owned();
                }
            }),
            thread::spawn({
                let said = said.clone();
                move || said.follow(BufReader::new(stderr))
            }),
        ];
        Running { child, marker: self.marker, said, readers }
    }

    /// Runs it to its end.
    pub fn finish(self) -> Ended {
        let mut running = self.start();
        running.wait(Duration::from_secs(900));
        running.into_ended()
    }
}

/// Standard output, whole at the end, and standard error, line by line.
#[derive(Default)]
struct Said {
    text: Mutex<(String, String)>,
    more: Condvar,
}

impl Said {
    fn follow(&self, mut stderr: impl BufRead) {
        let mut line = Vec::new();
        while stderr.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            self.text.lock().unwrap().1.push_str(&String::from_utf8_lossy(&line));
            line.clear();
            self.more.notify_all();
        }
        // Whoever waits for a line should learn that none will come.
        self.more.notify_all();
    }
}

/// A running tool. Dropped, everything with its marker is killed.
pub struct Running {
    child: Child,
    marker: String,
    said: Arc<Said>,
    readers: Vec<JoinHandle<()>>,
}

/// What the tool said and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub marker: String,
}

/// A process that the tool started, or that such a process started.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub arguments: Vec<String>,
}

impl Process {
    pub fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|own| own == argument)
    }

    pub fn runs(&self, program: &str) -> bool {
        self.arguments.first().is_some_and(|own| {
            Path::new(own).file_name().is_some_and(|name| name.to_string_lossy().starts_with(program))
        })
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until standard error has `text` in it for the `nth` time, from 1.
    pub fn wait_for(&self, text: &str, nth: usize) {
        let until = Instant::now() + PATIENCE;
        let mut said = self.said.text.lock().unwrap();
        while said.1.matches(text).count() < nth {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "`{text}` was not said {nth} times:\n{}", said.1);
            said = self.said.more.wait_timeout(said, left.min(Duration::from_millis(100))).unwrap().0;
        }
    }

    /// Everything that the tool started and that still runs.
    pub fn family(&self) -> Vec<Process> {
        family(&self.marker).into_iter().filter(|process| process.pid != self.pid()).collect()
    }

    /// The first process that `is` holds for; waits until there is one.
    pub fn find(&self, what: &str, is: impl Fn(&Process) -> bool) -> Process {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.family().into_iter().find(&is) {
                return found;
            }
            assert!(Instant::now() < until, "no {what} runs: {:#?}", self.family());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of the tool; how long that took.
    pub fn wait(&mut self, at_most: Duration) -> Duration {
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begin.elapsed() > at_most {
                let said = self.said.text.lock().unwrap().1.clone();
                panic!("the tool still runs after {at_most:?}: {:#?}\n{said}", self.family());
            }
            thread::sleep(Duration::from_millis(2));
        }
        begin.elapsed()
    }

    /// Waits until everything that the tool started is gone; how long that took.
    pub fn all_gone(&self, at_most: Duration) -> Duration {
        let begin = Instant::now();
        loop {
            let left = self.family();
            let took = begin.elapsed();
            if left.is_empty() {
                return took;
            }
            assert!(took <= at_most, "still there after {took:?}: {left:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What was said, once the tool and everything that it started are gone.
    pub fn into_ended(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        let (stdout, stderr) = std::mem::take(&mut *self.said.text.lock().unwrap());
        Ended { status, stdout, stderr, marker: self.marker.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        family(&self.marker).iter().for_each(|process| signal(process.pid, Signal::KILL));
    }
}

impl Ended {
    /// The exit code; a signal is told as shells tell it.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap()
    }

    /// The folder of the run whose base URL has the marker in it; `None` where the run had none yet.
    pub fn folder(&self) -> Option<PathBuf> {
        folder(&self.marker)
    }

    /// `summary.json`, for which the run has to have been called with [`Call::against`].
    pub fn summary(&self) -> serde_json::Value {
        let folder = self.folder().unwrap_or_else(|| panic!("no folder of the run:\n{}", self.stderr));
        let path = folder.join("summary.json");
        let text =
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.stderr));
        serde_json::from_slice(&text).unwrap()
    }
}

/// Sends `signal` to a process that this test started.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}

fn family(marker: &str) -> Vec<Process> {
    let wanted = format!("{MARKER}={marker}");
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let strings = |pid: u32, file: &str| -> Vec<String> {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    };
    pids.filter(|pid| strings(*pid, "environ").contains(&wanted))
        .map(|pid| Process { pid, arguments: strings(pid, "cmdline") })
        .collect()
}

/// The runs that are stored, by the marker in their base URL.
fn folder(marker: &str) -> Option<PathBuf> {
    let wanted = format!("/{marker}\"");
    let runs = fs::read_dir(target().join("cargo-loadtest/runs")).ok()?;
    runs.filter_map(|run| Some(run.ok()?.path())).find(|run| {
        let journal = fs::read_to_string(run.join("journal")).unwrap_or_default();
        journal.lines().next().is_some_and(|first| first.contains(&wanted))
    })
}

/// The files in and below `folder`, by their path in it.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}
