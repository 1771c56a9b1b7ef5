//! What processes use of this host while load is running: CPU, waiting for a CPU, memory, descriptors; each second, and in
//! all.

mod family;
mod gauges;
mod second;
mod target;
mod total;

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::model::event::Warning;
use crate::model::summary::Process;
use crate::sys::clock;
use crate::sys::fs::WholeFile;
use crate::sys::proc::{self, Host};
use crate::tool::receive::Outlet;
use family::{Family, Used};
pub(crate) use gauges::Resource;
use second::{HostSecond, ProcessSecond, Second, Series};
pub(crate) use target::Target;
use total::{HostTotal, Total};

const INTERVAL: Duration = Duration::from_secs(1);
/// The kernel counts CPU time in hundredths of a second: of less than this a share says little.
const SHORTEST: f64 = 0.5;

/// Looks at the watched processes each second, on a thread of its own. Only Linux tells; elsewhere there are no figures.
#[derive(Debug)]
pub(crate) struct Sampler {
    state: Arc<Mutex<State>>,
    /// Told when the second begins anew; dropped to end the thread.
    running: Sender<()>,
}

/// The use of the host during the load.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) processes: Vec<Process>,
    /// Of all cores, 0 to 1.
    pub(crate) host_cpu_share: Option<f64>,
    /// Of the host's CPU time, what the hypervisor gave to others, 0 to 1.
    pub(crate) steal_share: Option<f64>,
    /// The part of the time in which something was ready to run but without a CPU, 0 to 1.
    pub(crate) cpu_pressure: Option<f64>,
}

impl Sampler {
    /// Writes each second of load to `series`.
    pub(crate) fn start(series: WholeFile, resource: Resource) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new(Series::new(series), resource)));
        let (running, told) = channel();
        let sampled = Arc::clone(&state);
        thread::Builder::new().name("usage".to_owned()).spawn(move || {
            loop {
                match told.recv_timeout(INTERVAL) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => lock(&sampled).sample(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { state, running })
    }

    /// Watches `pid` under `name`, with the processes that it starts, or without them.
    pub(crate) fn watch(&self, name: &str, pid: u32, with_children: bool) {
        lock(&self.state).watch(name, Source::Started { pid, with_children });
    }

    /// Watches processes that were not started here. One that is watched already is not watched twice.
    pub(crate) fn watch_others(&self, targets: &[Target]) {
        let mut state = lock(&self.state);
        for target in targets {
            let source = Source::Other(target.clone());
            if !state.watched.iter().any(|watched| watched.source == source) {
                state.watch(&target.to_string(), source);
            }
        }
    }

    /// Sends each second of load to `outlet` as metrics, too.
    pub(crate) fn forward_to(&self, outlet: Option<Outlet>) {
        lock(&self.state).outlet = outlet;
    }

    /// From here on use is counted. Warns, once, of processes that were to be watched and are not there.
    pub(crate) fn load_begins(&self) -> Vec<Warning> {
        let mut state = lock(&self.state);
        // What was used before is not the load's.
        state.counting = false;
        state.sample();
        state.counting = true;
        // The thread ends with this sampler alone.
        let _ = self.running.send(());
        state.unknown()
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

    /// Completes the file of single seconds.
    pub(crate) fn finish(&self) -> io::Result<()> {
        lock(&self.state).series.finish()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct State {
    counting: bool,
    watched: Vec<Watched>,
    last: Option<Sample>,
    host: HostTotal,
    series: Series,
    resource: Resource,
    outlet: Option<Outlet>,
}

#[derive(Debug)]
struct Watched {
    name: String,
    source: Source,
    /// As it was when last looked at.
    last: Family,
    total: Total,
    is_told_unknown: bool,
}

/// Which processes are watched under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Started { pid: u32, with_children: bool },
    Other(Target),
}

impl Source {
    fn read(&self, table: &[(u32, String)]) -> Family {
        match self {
            Self::Started { pid, with_children } => Family::read([*pid], *with_children),
            Self::Other(target) => Family::read(target.find(table), false),
        }
    }
}

/// The counters of the host at one instant.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    host: Option<Host>,
    pressure_us: Option<u64>,
}

impl State {
    fn new(series: Series, resource: Resource) -> Self {
        Self {
            counting: false,
            watched: Vec::new(),
            last: None,
            host: HostTotal::default(),
            series,
            resource,
            outlet: None,
        }
    }

    /// Every process's id and name, where any is watched that was not started here.
    fn table(&self) -> Vec<(u32, String)> {
        let others = self.watched.iter().any(|watched| matches!(watched.source, Source::Other(_)));
        if others { proc::names() } else { Vec::new() }
    }

    fn watch(&mut self, name: &str, source: Source) {
        let table = if matches!(source, Source::Other(_)) { proc::names() } else { Vec::new() };
        self.watched.push(Watched {
            name: name.to_owned(),
            // What it used so far is not counted.
            last: source.read(&table),
            source,
            total: Total::default(),
            is_told_unknown: false,
        });
    }

    fn unknown(&mut self) -> Vec<Warning> {
        let table = self.table();
        let missing = self.watched.iter_mut().filter(|it| it.last.is_empty() && !it.is_told_unknown);
        missing
            .filter_map(|watched| {
                let Source::Other(target) = &watched.source else { return None };
                watched.is_told_unknown = true;
                Some(target.unknown(&table))
            })
            .collect()
    }

    fn sample(&mut self) {
        let table = self.table();
        // The host last, so that no process seems to have used more than there was.
        let families = self.watched.iter().map(|watched| watched.source.read(&table)).collect();
        let (at, unix_ns) = clock::both();
        let sample = Sample { at, host: Host::read(), pressure_us: proc::cpu_pressure_micros() };
        // The rest of a second at the end counts in the whole alone.
        let second = self.add(sample, families, unix_ns).filter(|second| second.host.seconds >= SHORTEST);
        let Some(second) = second else { return };
        self.series.write(&second);
        if let Some(outlet) = &self.outlet {
            outlet.metrics(gauges::request(&second, &self.resource));
        }
    }

    /// Takes in what is now: the families in the order of `watched`. Gives back what was used since the last time, while
    /// that is counted.
    fn add(&mut self, sample: Sample, families: Vec<Family>, unix_ns: u64) -> Option<Second> {
        let before = self.last.replace(sample).filter(|_| self.counting);
        let host = before.and_then(|before| HostSecond::between(&before, &sample));
        let mut processes = Vec::new();
        for (watched, family) in self.watched.iter_mut().zip(families) {
            let used = Used::between(&watched.last, &family);
            if let Some(host) = host.filter(|_| !family.is_empty()) {
                let process = ProcessSecond::new(&watched.name, &family, used, &host);
                watched.total.add(&process, used, host.seconds);
                processes.push(process);
            }
            watched.last = family;
        }
        let host = host?;
        self.host.add(&host);
        Some(Second { unix_ms: unix_ns / 1_000_000, host, processes })
    }

    fn usage(&self) -> Usage {
        Usage {
            processes: self
                .watched
                .iter()
                .filter_map(|watched| watched.total.process(&watched.name, &self.host))
                .collect(),
            host_cpu_share: self.host.share(self.host.busy_ticks),
            steal_share: self.host.share(self.host.steal_ticks),
            cpu_pressure: self.host.cpu_pressure(),
        }
    }
}

#[cfg(test)]
mod tests;
