//! A call of the tool that is going on, and the processes that it started: they are found in `/proc` by the marker in
//! their environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::tool::{Call, Ended, MARKER};

/// Nothing that a test waits for takes that long, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the tool and follows what it says.
pub(crate) fn start(mut call: Call) -> Running {
    let mut child = call.command.spawn().unwrap();
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
    Running { child, marker: call.marker, said, readers }
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
pub(crate) struct Running {
    child: Child,
    marker: String,
    said: Arc<Said>,
    readers: Vec<JoinHandle<()>>,
}

/// A process that the tool started, or that such a process started.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) arguments: Vec<String>,
}

impl Process {
    pub(crate) fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|own| own == argument)
    }

    pub(crate) fn runs(&self, program: &str) -> bool {
        self.arguments.first().is_some_and(|own| {
            Path::new(own).file_name().is_some_and(|name| name.to_string_lossy().starts_with(program))
        })
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until standard error has `text` in it for the `nth` time, from 1.
    pub(crate) fn wait_for(&self, text: &str, nth: usize) {
        let until = Instant::now() + PATIENCE;
        let mut said = self.said.text.lock().unwrap();
        while said.1.matches(text).count() < nth {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "`{text}` was not said {nth} times:\n{}", said.1);
            said = self.said.more.wait_timeout(said, left.min(Duration::from_millis(100))).unwrap().0;
        }
    }

    /// Everything that the tool started and that still runs.
    pub(crate) fn family(&self) -> Vec<Process> {
        family(&self.marker).into_iter().filter(|process| process.pid != self.pid()).collect()
    }

    /// The first process that `is` holds for; waits until there is one.
    pub(crate) fn find(&self, what: &str, is: impl Fn(&Process) -> bool) -> Process {
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
    pub(crate) fn wait(&mut self, at_most: Duration) -> Duration {
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
    pub(crate) fn all_gone(&self, at_most: Duration) -> Duration {
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
    pub(crate) fn into_ended(mut self) -> Ended {
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

/// Sends `signal` to a process that this test started.
pub(crate) fn signal(pid: u32, signal: Signal) {
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

/// The files in and below `folder`, by their path in it.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
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
