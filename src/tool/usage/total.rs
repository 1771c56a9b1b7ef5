//! What was used during the whole load.

use super::SHORTEST;
use super::family::Used;
use super::second::{HostSecond, ProcessSecond};
use crate::model::summary::Process;

#[derive(Debug, Default)]
pub(super) struct HostTotal {
    pub(super) busy_ticks: u64,
    pub(super) steal_ticks: u64,
    pub(super) total_ticks: u64,
    /// Seconds of pressure, of the seconds for which that is known.
    waited: f64,
    known: f64,
}

impl HostTotal {
    pub(super) fn add(&mut self, second: &HostSecond) {
        self.busy_ticks += second.busy_ticks;
        self.steal_ticks += second.steal_ticks;
        self.total_ticks += second.total_ticks;
        if let Some(pressure) = second.cpu_pressure {
            self.waited += pressure * second.seconds;
            self.known += second.seconds;
        }
    }

    /// Of the CPU time that the host had.
    pub(super) fn share(&self, ticks: u64) -> Option<f64> {
        (self.total_ticks > 0).then(|| ticks as f64 / self.total_ticks as f64)
    }

    pub(super) fn cpu_pressure(&self) -> Option<f64> {
        (self.known > 0.0).then(|| self.waited / self.known)
    }
}

#[derive(Debug, Default)]
pub(super) struct Total {
    used: Used,
    pid: Option<u32>,
    processes_max: u32,
    rss_bytes_max: u64,
    open_files_max: Option<u64>,
    cpu_share_max: Option<f64>,
}

impl Total {
    pub(super) fn add(&mut self, second: &ProcessSecond, used: Used, seconds: f64) {
        self.used.add(used);
        self.pid.get_or_insert(second.pid);
        self.processes_max = self.processes_max.max(second.processes);
        self.rss_bytes_max = self.rss_bytes_max.max(second.rss_bytes);
        self.open_files_max = self.open_files_max.max(second.open_files);
        if seconds >= SHORTEST {
            self.cpu_share_max = Some(self.cpu_share_max.unwrap_or(0.0).max(second.cpu_share));
        }
    }

    /// `None` for what was never there.
    pub(super) fn process(&self, name: &str, host: &HostTotal) -> Option<Process> {
        let cpu_share = host.share(self.used.cpu_ticks)?;
        Some(Process {
            name: name.to_owned(),
            pid: self.pid?,
            cpu_share,
            runqueue_wait_ratio: self.used.runqueue_wait_ratio(),
            rss_bytes_max: Some(self.rss_bytes_max),
            processes: self.processes_max,
            // Of a short load the whole is the only second.
            cpu_share_max: Some(self.cpu_share_max.unwrap_or(cpu_share)),
            open_files_max: self.open_files_max,
        })
    }
}
