//! The counters of one watched process, or several, at one instant.

use std::collections::{BTreeMap, BTreeSet};

use crate::sys::proc::{self, SchedStat, Stat};

/// Processes that are watched under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) cpu_ticks: BTreeMap<u32, u64>,
    pub(super) threads: BTreeMap<(u32, u32), SchedStat>,
    pub(super) rss_bytes: u64,
    /// `None` where no process tells.
    pub(super) open_files: Option<u64>,
}

impl Family {
    /// Reads the processes `roots`, with all that they started and that still lives, where it is wanted.
    pub(super) fn read(roots: impl IntoIterator<Item = u32>, with_children: bool) -> Self {
        let mut family = Self::default();
        let mut pids: BTreeSet<u32> = roots.into_iter().collect();
        while let Some(pid) = pids.pop_first() {
            let Some(stat) = Stat::read(pid).filter(|_| !family.cpu_ticks.contains_key(&pid)) else {
                continue;
            };
            family.cpu_ticks.insert(pid, stat.cpu_ticks);
            family.rss_bytes += proc::resident_bytes(pid).unwrap_or(0);
            if let Some(files) = proc::open_files(pid) {
                *family.open_files.get_or_insert(0) += files;
            }
            for thread in proc::threads(pid) {
                family.threads.extend(SchedStat::read(pid, thread).map(|times| ((pid, thread), times)));
                if with_children {
                    pids.extend(proc::children(pid, thread));
                }
            }
        }
        family
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cpu_ticks.is_empty()
    }

    /// How many processes it is.
    pub(super) fn count(&self) -> u32 {
        self.cpu_ticks.len() as u32
    }
}

/// What a family used between two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu_ticks: u64,
    pub(super) running_ns: u64,
    pub(super) waiting_ns: u64,
}

impl Used {
    /// What is new in the second family was started in between: all of it counts. What has ended in between took its last
    /// moments with it, except for a thread's CPU time, which its process keeps.
    pub(super) fn between(before: &Family, now: &Family) -> Self {
        let mut used = Self::default();
        for (pid, ticks) in &now.cpu_ticks {
            let base = before.cpu_ticks.get(pid).copied().unwrap_or(0);
            used.cpu_ticks += ticks.saturating_sub(base);
        }
        for (thread, times) in &now.threads {
            let base = before.threads.get(thread).copied().unwrap_or_default();
            used.running_ns += times.running.saturating_sub(base.running);
            used.waiting_ns += times.waiting.saturating_sub(base.waiting);
        }
        used
    }

    pub(super) fn add(&mut self, other: Self) {
        self.cpu_ticks += other.cpu_ticks;
        self.running_ns += other.running_ns;
        self.waiting_ns += other.waiting_ns;
    }

    /// The time waited for a CPU over the time that one was had.
    pub(super) fn runqueue_wait_ratio(self) -> Option<f64> {
        (self.running_ns > 0).then(|| self.waiting_ns as f64 / self.running_ns as f64)
    }
}
