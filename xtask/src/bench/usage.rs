//! CPU time and memory of a program and of the processes below it that have one name, read from `/proc` until the program
//! has ended.
//!
//! An ended process that nobody has waited for still has its CPU time, so that of the program is exact. That of the
//! processes below is of the last look before each ended. Memory is gone when a process ends, so it is of looks alone.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Of `/proc/PID/stat` on every Linux that Rust runs on (`getconf CLK_TCK`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Between two looks. The kernel counts in ticks of 10 ms anyway.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Enough to tell why it failed.
const LINES_OF_COMPLAINT: usize = 10;

pub(super) fn is_supported() -> bool {
    cfg!(target_os = "linux")
}

#[derive(Debug)]
pub(super) struct Usage {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    /// The last lines of what it complained of.
    pub(super) complaint: String,
    /// One after another, about equally far apart; the last is of the program when it had ended. Never empty.
    pub(super) looks: Vec<Look>,
}

/// What had been used when it was looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Since the program was started.
    pub(super) at: Duration,
    /// CPU seconds, user and system, of the program itself.
    pub(super) program: f64,
    /// The same of the processes below whose name began as asked, one after the other.
    pub(super) below: f64,
    /// Nothing once the program has ended. With processes below, there is something while the last of them lived.
    pub(super) resident: Option<Resident>,
}

/// Resident bytes of the program, and of the last of the processes below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resident {
    pub(super) program: u64,
    pub(super) below: u64,
}

/// Runs `command` and measures it, and the processes below it whose executable's name begins with `below`.
pub(super) fn measure(command: &mut Command, below: Option<&str>, limit: Duration) -> Result<Usage> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().context("could not start")?;
    let output = read_aside(child.stdout.take().context("the program has no standard output")?);
    let errors = read_aside(child.stderr.take().context("the program has no standard error")?);
    let looks = watch(&mut child, below, started, limit)?;
    let status = child.wait().context("could not wait for the program")?;
    let errors = read(errors)?;
    let lines: Vec<_> = errors.lines().collect();
    let complaint = lines[lines.len().saturating_sub(LINES_OF_COMPLAINT)..].join("\n");
    Ok(Usage { status, stdout: read(output)?, complaint, looks })
}

/// Read aside, so that a full pipe does not stop the program.
fn read_aside(mut from: impl Read + Send + 'static) -> JoinHandle<std::io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map(|_| bytes)
    })
}

fn read(reader: JoinHandle<std::io::Result<Vec<u8>>>) -> Result<String> {
    let bytes = reader.join().ok().context("reading its output panicked")?;
    Ok(String::from_utf8_lossy(&bytes.context("could not read its output")?).into_owned())
}

fn watch(child: &mut Child, below: Option<&str>, started: Instant, limit: Duration) -> Result<Vec<Look>> {
    let mut found: Option<u32> = None;
    let mut seconds_below = Vec::new();
    let mut looks: Vec<Look> = Vec::new();
    loop {
        let stat = Stat::of(child.id()).context("the program has no entry in /proc")?;
        if let (None, Some(name)) = (found, below) {
            found = descendant(child.id(), name);
            if found.is_some() {
                seconds_below.push(0.0);
                // Those so far were of another.
                looks.iter_mut().for_each(|look| look.resident = None);
            }
        }
        match (found.and_then(Stat::of), seconds_below.last_mut()) {
            (Some(stat), Some(last)) => *last = stat.seconds(),
            // Another may follow it: the tool starts the scenario's executable also to list what is in it.
            _ => found = None,
        }
        let of_below = if below.is_some() { found.and_then(resident_bytes) } else { Some(0) };
        let resident = resident_bytes(child.id()).zip(of_below);
        looks.push(Look {
            at: started.elapsed(),
            program: stat.seconds(),
            below: seconds_below.iter().sum(),
            resident: resident.map(|(program, below)| Resident { program, below }),
        });
        if stat.has_ended() {
            return match below {
                Some(name) if seconds_below.is_empty() => bail!("no process named {name} was seen"),
                _ => Ok(looks),
            };
        }
        if started.elapsed() > limit {
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

/// Of a process that lives.
fn resident_bytes(pid: u32) -> Option<u64> {
    resident_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The line `VmRSS:      1234 kB`; a process that has ended has none.
fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
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

    use super::{Look, Stat, Usage, measure, resident_in};
    use crate::process::program;

    const LIMIT: Duration = Duration::from_mins(1);

    fn last(usage: &Usage) -> &Look {
        usage.looks.last().expect("there is one at least")
    }

    fn most_resident(usage: &Usage) -> u64 {
        let resident = usage.looks.iter().filter_map(|look| look.resident);
        resident.map(|resident| resident.program + resident.below).max().unwrap_or_default()
    }

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
        assert!(last(&usage).program > 0.0, "{usage:?}");
        let usage = measure(program("sleep", crate::root()).arg("0.2"), None, LIMIT).unwrap();
        assert!(last(&usage).program < 0.1, "{usage:?}");
    }

    #[test]
    fn the_process_below_is_found_and_counted_apart() {
        let script = "dd if=/dev/zero of=/dev/null bs=4k count=1 2>/dev/null; sleep 0.3; sh -c 'exec dd if=/dev/zero of=/dev/null bs=4k count=300000 2>/dev/null'; true";
        let usage = measure(program("sh", crate::root()).args(["-c", script]), Some("dd"), LIMIT).unwrap();
        assert!(last(&usage).below > last(&usage).program, "{usage:?}");
        let error =
            measure(program("sh", crate::root()).args(["-c", "true"]), Some("dd"), LIMIT).unwrap_err();
        assert!(error.to_string().contains("dd"), "{error}");
    }

    #[test]
    fn the_resident_size_is_in_bytes_and_a_process_that_ended_has_none() {
        assert_eq!(resident_in("Name:\tsh\nVmHWM:\t   900 kB\nVmRSS:\t     780 kB\n"), Some(798_720));
        assert_eq!(resident_in("Name:\tsh\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn memory_that_a_program_takes_is_seen_also_that_of_the_process_below() {
        let take = "head -c 40000000 /dev/zero | tail -c 40000000 | sleep 0.3";
        let mut whole = program("sh", crate::root());
        let usage = measure(whole.args(["-c", &format!("{take}; true")]), Some("tail"), LIMIT).unwrap();
        assert!(most_resident(&usage) > 40_000_000, "{usage:?}");
        let usage = measure(program("sleep", crate::root()).arg("0.1"), None, LIMIT).unwrap();
        assert!((1..40_000_000).contains(&most_resident(&usage)), "{usage:?}");
    }

    #[test]
    fn what_a_program_complained_of_last_is_kept() {
        let script = "seq 1 100 >&2; printf 'bytes \\377' >&2; exit 3";
        let usage = measure(program("sh", crate::root()).args(["-c", script]), None, LIMIT).unwrap();
        assert_eq!(usage.status.code(), Some(3));
        assert_eq!(usage.complaint.lines().next(), Some("92"));
        assert!(usage.complaint.ends_with("100\nbytes \u{fffd}"), "{}", usage.complaint);
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let mut command = program("sleep", crate::root());
        let error = measure(command.arg("600"), None, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }
}
