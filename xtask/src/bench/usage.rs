//! CPU time of a program and of the processes below it that have one name, read from `/proc` until the program has ended.
//!
//! An ended process that nobody has waited for still has its figures, so those of the program are exact. Those of the
//! processes below are of the last look before each ended.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Of `/proc/PID/stat` on every Linux that Rust runs on (`getconf CLK_TCK`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Between two looks. The kernel counts in ticks of 10 ms anyway.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn is_supported() -> bool {
    cfg!(target_os = "linux")
}

#[derive(Debug)]
pub(super) struct Usage {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    /// CPU seconds, user and system, of the program itself.
    pub(super) program: f64,
    /// The same of the processes below whose name began as asked, one after the other.
    pub(super) below: f64,
}

/// Runs `command` and measures it, and the processes below it whose executable's name begins with `below`.
pub(super) fn measure(command: &mut Command, below: Option<&str>, limit: Duration) -> Result<Usage> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start")?;
    let mut output = child.stdout.take().context("the program has no standard output")?;
    // Read aside, so that a full pipe does not stop the program.
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let (program, below) = watch(&mut child, below, limit)?;
    let status = child.wait().context("could not wait for the program")?;
    let stdout =
        reader.join().ok().context("reading its output panicked")?.context("could not read its output")?;
    Ok(Usage { status, stdout, program, below })
}

fn watch(child: &mut Child, below: Option<&str>, limit: Duration) -> Result<(f64, f64)> {
    let deadline = Instant::now() + limit;
    let mut found: Option<u32> = None;
    let mut seconds_below = Vec::new();
    loop {
        let stat = Stat::of(child.id()).context("the program has no entry in /proc")?;
        if let (None, Some(name)) = (found, below) {
            found = descendant(child.id(), name);
            seconds_below.extend(found.map(|_| 0.0));
        }
        match (found.and_then(Stat::of), seconds_below.last_mut()) {
            (Some(stat), Some(last)) => *last = stat.seconds(),
            // Another may follow it: the tool starts the scenario's executable also to list what is in it.
            _ => found = None,
        }
        if stat.has_ended() {
            return match below {
                Some(name) if seconds_below.is_empty() => bail!("no process named {name} was seen"),
                _ => Ok((stat.seconds(), seconds_below.iter().sum())),
            };
        }
        if Instant::now() > deadline {
            // Its own children end with it: the tool sees to that, and the others have none.
            child.kill().context("could not end a program that took too long")?;
            child.wait().context("could not wait for the program")?;
            bail!("the program did not end within {} s", limit.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state parent …`, where the name may hold anything, also `)`; user and system ticks are fields 14, 15.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<_> = after.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            name,
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)? + number(15)?,
        })
    }

    fn seconds(&self) -> f64 {
        self.ticks as f64 / TICKS_PER_SECOND
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// A process below `ancestor` whose name begins with `name`; the kernel keeps 15 bytes of a name.
fn descendant(ancestor: u32, name: &str) -> Option<u32> {
    let name = name.get(..15).unwrap_or(name);
    let pids = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let processes: HashMap<u32, Stat> = pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let is_below = |mut pid: u32| {
        // A chain of parents is no longer than there are processes.
        for _ in 0..processes.len() {
            match processes.get(&pid) {
                Some(stat) if stat.parent == ancestor => return true,
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    let mut named = processes.iter().filter(|(_, stat)| stat.name.starts_with(name));
    named.find(|(pid, _)| is_below(**pid)).map(|(pid, _)| *pid)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::{Stat, measure};
    use crate::process::program;

    const LIMIT: Duration = Duration::from_mins(1);

    #[test]
    fn a_line_of_proc_is_read_also_when_the_name_is_odd() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194304 109 0 0 0 250 30 5 6 20 0 1 0 100 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { name: "a) b (c)".into(), state: 'S', parent: 7, ticks: 280 });
        assert_eq!(Stat::parse("42 (cut"), None);
        assert_eq!(Stat::parse("42 (cut) S 7"), None);
    }

    #[test]
    fn a_program_that_works_has_cpu_time_and_one_that_waits_has_none() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done";
        let usage = measure(program("sh", crate::root()).args(["-c", busy]), None, LIMIT).unwrap();
        assert!(usage.status.success());
        assert_eq!(usage.stdout, "done\n");
        assert!(usage.program > 0.0, "{usage:?}");
        let usage = measure(program("sleep", crate::root()).arg("0.2"), None, LIMIT).unwrap();
        assert!(usage.program < 0.1, "{usage:?}");
    }

    #[test]
    fn the_process_below_is_found_and_counted_apart() {
        let script = "dd if=/dev/zero of=/dev/null bs=4k count=1 2>/dev/null; sleep 0.3; sh -c 'exec dd if=/dev/zero of=/dev/null bs=4k count=300000 2>/dev/null'; true";
        let usage = measure(program("sh", crate::root()).args(["-c", script]), Some("dd"), LIMIT).unwrap();
        assert!(usage.below > usage.program, "{usage:?}");
        let error =
            measure(program("sh", crate::root()).args(["-c", "true"]), Some("dd"), LIMIT).unwrap_err();
        assert!(error.to_string().contains("dd"), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let mut command = program("sleep", crate::root());
        let error = measure(command.arg("600"), None, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }
}
