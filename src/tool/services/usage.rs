//! What processes use of this host while load is running: CPU, waiting for a CPU, memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::model::summary::Process;
use crate::sys::proc::{self, Host, SchedStat, Stat};

const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at the watched processes each second, on a thread of its own. Only Linux tells; elsewhere there are no figures.
#[derive(Debug)]
pub(crate) struct Sampler {
    state: Arc<Mutex<State>>,
    /// Dropped to end the thread.
    _running: Sender<()>,
}

/// The use of the host during the load.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) processes: Vec<Process>,
    /// Of all cores, 0 to 1.
    pub(crate) host_cpu_share: Option<f64>,
}

impl Sampler {
    pub(crate) fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let (running, stop) = channel();
        let sampled = Arc::clone(&state);
        thread::Builder::new().name("usage".to_owned()).spawn(move || {
            while stop.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                lock(&sampled).sample();
            }
        })?;
        Ok(Self { state, _running: running })
    }

    /// Watches `pid` under `name`, with the processes that it starts, or without them.
    pub(crate) fn watch(&self, name: &str, pid: u32, with_children: bool) {
        let mut state = lock(&self.state);
        // What it used so far is not counted.
        state.last.families.insert(pid, Family::read(pid, with_children));
        state.watched.push(Watched { name: name.to_owned(), pid, with_children, total: Total::default() });
    }

    /// From here on use is counted.
    pub(crate) fn load_begins(&self) {
        let mut state = lock(&self.state);
        // What was used before is not the load's.
        state.counting = false;
        state.sample();
        state.counting = true;
    }

    /// Use is no longer counted. A later [`load_begins`](Self::load_begins) adds to it.
    pub(crate) fn load_ends(&self) {
        let mut state = lock(&self.state);
        state.sample();
        state.counting = false;
    }

    /// What was counted so far.
    pub(crate) fn usage(&self) -> Usage {
        lock(&self.state).usage()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct State {
    counting: bool,
    watched: Vec<Watched>,
    last: Sample,
    host: HostTotal,
}

#[derive(Debug)]
struct Watched {
    name: String,
    pid: u32,
    with_children: bool,
    total: Total,
}

#[derive(Debug, Default)]
struct HostTotal {
    busy_ticks: u64,
    total_ticks: u64,
}

#[derive(Debug, Default)]
struct Total {
    cpu_ticks: u64,
    running_ns: u64,
    waiting_ns: u64,
    rss_bytes_max: Option<u64>,
}

/// The counters of one instant.
#[derive(Debug, Clone, Default)]
struct Sample {
    host: Option<Host>,
    /// By watched process id.
    families: BTreeMap<u32, Family>,
}

/// One watched process, with its children where they are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Family {
    cpu_ticks: BTreeMap<u32, u64>,
    threads: BTreeMap<(u32, u32), SchedStat>,
    rss_bytes: u64,
}

impl State {
    fn sample(&mut self) {
        // The host last, so that no process seems to have used more than there was.
        let families = self
            .watched
            .iter()
            .map(|watched| (watched.pid, Family::read(watched.pid, watched.with_children)))
            .collect();
        let sample = Sample { host: Host::read(), families };
        self.add(sample);
    }

    fn add(&mut self, sample: Sample) {
        if self.counting {
            if let (Some(before), Some(now)) = (self.last.host, sample.host) {
                self.host.busy_ticks += now.busy_ticks.saturating_sub(before.busy_ticks);
                self.host.total_ticks += now.total_ticks.saturating_sub(before.total_ticks);
            }
            for watched in &mut self.watched {
                let families = (self.last.families.get(&watched.pid), sample.families.get(&watched.pid));
                if let (Some(before), Some(now)) = families {
                    watched.total.add(before, now);
                }
            }
        }
        self.last = sample;
    }

    fn usage(&self) -> Usage {
        let share =
            |ticks: u64| (self.host.total_ticks > 0).then(|| ticks as f64 / self.host.total_ticks as f64);
        let process = |watched: &Watched| {
            let total = &watched.total;
            let ratio = total.waiting_ns as f64 / total.running_ns as f64;
            Some(Process {
                name: watched.name.clone(),
                pid: watched.pid,
                cpu_share: share(total.cpu_ticks)?,
                runqueue_wait_ratio: (total.running_ns > 0).then_some(ratio),
                rss_bytes_max: total.rss_bytes_max,
            })
        };
        Usage {
            processes: self.watched.iter().filter_map(process).collect(),
            host_cpu_share: share(self.host.busy_ticks),
        }
    }
}

impl Total {
    /// Adds what was used between two samples. What is new in the second one was started in between: all of it counts.
    /// What has ended in between took its last moments with it, except for a thread's CPU time, which its process keeps.
    fn add(&mut self, before: &Family, now: &Family) {
        for (pid, ticks) in &now.cpu_ticks {
            let base = before.cpu_ticks.get(pid).copied().unwrap_or(0);
            self.cpu_ticks += ticks.saturating_sub(base);
        }
        for (thread, times) in &now.threads {
            let base = before.threads.get(thread).copied().unwrap_or_default();
            self.running_ns += times.running.saturating_sub(base.running);
            self.waiting_ns += times.waiting.saturating_sub(base.waiting);
        }
        if !now.cpu_ticks.is_empty() {
            self.rss_bytes_max = self.rss_bytes_max.max(Some(now.rss_bytes));
        }
    }
}

impl Family {
    fn read(pid: u32, with_children: bool) -> Self {
        let mut family = Self::default();
        let mut pids = BTreeSet::from([pid]);
        while let Some(pid) = pids.pop_first() {
            let Some(stat) = Stat::read(pid).filter(|_| !family.cpu_ticks.contains_key(&pid)) else {
                continue;
            };
            family.cpu_ticks.insert(pid, stat.cpu_ticks);
            family.rss_bytes += proc::resident_bytes(pid).unwrap_or(0);
            for thread in proc::threads(pid) {
                family.threads.extend(SchedStat::read(pid, thread).map(|times| ((pid, thread), times)));
                if with_children {
                    pids.extend(proc::children(pid, thread));
                }
            }
        }
        family
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 7;

    fn family(cpu_ticks: u64, threads: &[(u32, u64, u64)], rss_bytes: u64) -> Family {
        let threads =
            threads.iter().map(|&(thread, running, waiting)| ((PID, thread), SchedStat { running, waiting }));
        Family { cpu_ticks: BTreeMap::from([(PID, cpu_ticks)]), threads: threads.collect(), rss_bytes }
    }

    fn sample(busy_ticks: u64, total_ticks: u64, family: Family) -> Sample {
        Sample { host: Some(Host { busy_ticks, total_ticks }), families: BTreeMap::from([(PID, family)]) }
    }

    fn counting() -> State {
        let watched =
            Watched { name: "auth".to_owned(), pid: PID, with_children: true, total: Total::default() };
        State { watched: vec![watched], ..State::default() }
    }

    #[test]
    fn only_the_time_of_the_load_counts() {
        let mut state = counting();
        state.add(sample(5000, 9000, family(900, &[(7, 10, 10)], 999)));
        state.add(sample(5000, 10_000, family(1000, &[(7, 100, 500)], 99)));
        state.counting = true;
        state.add(sample(5150, 10_200, family(1120, &[(7, 200, 1200)], 30)));
        state.add(sample(5300, 10_400, family(1240, &[(7, 300, 1900)], 20)));
        state.counting = false;
        state.add(sample(9000, 20_000, family(5000, &[(7, 9000, 9000)], 500)));
        let usage = state.usage();
        assert_eq!(usage.host_cpu_share, Some(0.75));
        let auth = &usage.processes[0];
        assert_eq!((auth.name.as_str(), auth.pid), ("auth", PID));
        assert_eq!(auth.cpu_share.to_string(), "0.6");
        assert_eq!(auth.runqueue_wait_ratio, Some(7.0));
        assert_eq!(auth.rss_bytes_max, Some(30));
    }

    #[test]
    fn threads_and_processes_may_come_and_go() {
        let mut state = counting();
        state.add(sample(0, 0, family(0, &[(7, 100, 100), (8, 50, 50)], 1)));
        state.counting = true;
        state.add(sample(0, 100, family(10, &[(7, 200, 150), (9, 40, 80)], 1)));
        let mut with_child = family(20, &[(7, 200, 150)], 1);
        with_child.cpu_ticks.insert(70, 5);
        state.add(sample(0, 200, with_child));
        let total = &state.watched[0].total;
        assert_eq!((total.cpu_ticks, total.running_ns, total.waiting_ns), (25, 140, 130));
    }

    #[test]
    fn what_the_system_does_not_tell_is_missing() {
        let mut state = counting();
        state.counting = true;
        state.add(Sample::default());
        state.add(Sample { host: None, families: BTreeMap::from([(PID, Family::default())]) });
        assert_eq!(state.usage(), Usage::default());

        let mut state = counting();
        state.add(sample(0, 0, family(0, &[], 1)));
        state.counting = true;
        state.add(sample(10, 100, family(10, &[], 1)));
        assert_eq!(state.usage().processes[0].runqueue_wait_ratio, None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_busy_process_is_seen() {
        let sampler = Sampler::start().unwrap();
        sampler.watch("me", std::process::id(), false);
        sampler.load_begins();
        let begin = Stat::read(std::process::id()).unwrap().cpu_ticks;
        let mut turns = 0_u64;
        while Stat::read(std::process::id()).unwrap().cpu_ticks < begin + 5 {
            turns += 1;
        }
        sampler.load_ends();
        let usage = sampler.usage();
        assert!(turns > 0 && usage.processes[0].cpu_share > 0.0, "{usage:?}");
        assert!(usage.host_cpu_share.unwrap() > 0.0);
        assert!(usage.processes[0].rss_bytes_max.unwrap() > 0);
    }
}
