//! One second of load, and the file of all of them.

use std::io::{self, Write as _};

use serde::Serialize;

use super::Sample;
use super::family::{Family, Used};
use crate::sys::fs::WholeFile;

/// What was used in about one second: a line of `usage.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Second {
    /// Its end.
    pub(super) unix_ms: u64,
    pub(super) host: HostSecond,
    /// Those that were there.
    pub(super) processes: Vec<ProcessSecond>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct HostSecond {
    /// How long it was.
    pub(super) seconds: f64,
    #[serde(skip)]
    pub(super) total_ticks: u64,
    #[serde(skip)]
    pub(super) busy_ticks: u64,
    #[serde(skip)]
    pub(super) steal_ticks: u64,
    pub(super) cpu_share: f64,
    pub(super) steal_share: f64,
    /// `null` where the kernel has no pressure stall information.
    pub(super) cpu_pressure: Option<f64>,
}

impl HostSecond {
    /// `None` where the system does not tell, or not a tick has passed.
    pub(super) fn between(before: &Sample, now: &Sample) -> Option<Self> {
        let (first, last) = before.host.zip(now.host)?;
        let total_ticks = last.total_ticks.saturating_sub(first.total_ticks);
        let busy_ticks = last.busy_ticks.saturating_sub(first.busy_ticks);
        let steal_ticks = last.steal_ticks.saturating_sub(first.steal_ticks);
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        if total_ticks == 0 {
            return None;
        }
        let pressure = before.pressure_us.zip(now.pressure_us);
        let waited = pressure.map(|(before, now)| now.saturating_sub(before) as f64 / 1e6);
        Some(Self {
            seconds,
            total_ticks,
            busy_ticks,
            steal_ticks,
            cpu_share: busy_ticks as f64 / total_ticks as f64,
            steal_share: steal_ticks as f64 / total_ticks as f64,
            // Two clocks: the one may have been read a little later than the other.
            cpu_pressure: waited.filter(|_| seconds > 0.0).map(|waited| (waited / seconds).min(1.0)),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProcessSecond {
    pub(super) name: String,
    /// The lowest id of those that are counted together.
    pub(super) pid: u32,
    /// How many are.
    pub(super) processes: u32,
    /// Of all cores, 0 to 1.
    pub(super) cpu_share: f64,
    pub(super) runqueue_wait_ratio: Option<f64>,
    pub(super) rss_bytes: u64,
    pub(super) open_files: Option<u64>,
}

impl ProcessSecond {
    pub(super) fn new(name: &str, family: &Family, used: Used, host: &HostSecond) -> Self {
        Self {
            name: name.to_owned(),
            pid: family.cpu_ticks.keys().next().copied().unwrap_or_default(),
            processes: family.count(),
            cpu_share: used.cpu_ticks as f64 / host.total_ticks as f64,
            runqueue_wait_ratio: used.runqueue_wait_ratio(),
            rss_bytes: family.rss_bytes,
            open_files: family.open_files,
        }
    }
}

/// The file of single seconds. What goes wrong is told when it is to be completed.
#[derive(Debug)]
pub(super) struct Series {
    file: Option<WholeFile>,
    failed: Option<io::Error>,
    is_empty: bool,
}

impl Series {
    pub(super) fn new(file: WholeFile) -> Self {
        Self { file: Some(file), failed: None, is_empty: true }
    }

    pub(super) fn write(&mut self, second: &Second) {
        let Some(file) = self.file.as_mut().filter(|_| self.failed.is_none()) else { return };
        let line = serde_json::to_string(second).map_err(io::Error::from);
        self.failed = line.and_then(|line| writeln!(file, "{line}")).err();
        self.is_empty = false;
    }

    /// Gives the file its name. Where there was nothing to write, no file is left.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match (self.failed.take(), self.file.take()) {
            (Some(error), _) => Err(error),
            (None, Some(file)) if !self.is_empty => file.finish(),
            (None, _) => Ok(()),
        }
    }
}
