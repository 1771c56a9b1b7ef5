//! A phase: some scenarios under their load models, together, from the first start to the last end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::Users;
use super::schedule::{self, Action, Grace};
use super::worker::{self, Command, Pot, Report, Work};
use crate::model::load::LoadModel;
use crate::model::stats::{Interval, Phase, ScenarioStats};
use crate::sys::clock;

/// How often the workers' shards are taken.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to hang up once all is cut off, before it is left behind.
const HANG_UP: Duration = Duration::from_secs(2);
/// How long a worker may take to hand its shard over.
const HAND_OVER: Duration = Duration::from_millis(100);
/// How often a stop from outside is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// One scenario of a phase.
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) load: LoadModel,
    pub(crate) grace: Grace,
    pub(crate) users: Arc<dyn Users>,
}

/// What a phase runs, and on how many threads.
pub(crate) struct PhasePlan {
    pub(crate) phase: Phase,
    pub(crate) slots: Vec<Slot>,
    pub(crate) workers: usize,
}

/// Set from outside to cut everything off at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a phase ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything that was scheduled ran, or was cut off on schedule.
    Whole,
    /// It was to stop.
    Stopped,
    /// It could not be run.
    Failed(String),
}

/// Runs the phase to its end on threads of its own, or until `stop` says so; tells each interval, and the first step of each scenario that
/// found no row of its own. Gives back how it ended, and the CPU
/// share of each worker thread.
pub(crate) fn run(
    plan: &PhasePlan,
    stop: &dyn Fn() -> bool,
    mut on_interval: impl FnMut(Interval),
    mut on_overflow: impl FnMut(&str),
) -> (Ended, Vec<f64>) {
    let start = clock::now();
    let work: Vec<Work> =
        plan.slots.iter().map(|slot| Work { users: slot.users.clone(), pot: pot(&slot.load) }).collect();
    let mut due: Vec<(usize, schedule::Due)> = plan
        .slots
        .iter()
        .enumerate()
        .flat_map(|(at, slot)| schedule::of(&slot.load, slot.grace).into_iter().map(move |due| (at, due)))
        .collect();
    due.sort_by_key(|(_, due)| due.at);

    let (reports, inbox) = channel();
    let mut commands = Vec::new();
    let mut threads = Vec::new();
    for worker in 0..plan.workers {
        let (to_worker, from_phase) = unbounded_channel();
        commands.push(to_worker);
        let (work, reports, workers) = (work.clone(), reports.clone(), plan.workers);
        let run = move || worker::run((worker, workers), &work, from_phase, &reports);
        match thread::Builder::new().name(format!("load-{worker}")).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                return (Ended::Failed(format!("cannot start a worker thread: {error}")), Vec::new());
            }
        }
    }
    let (keep_pacing, stop_pacing) = channel::<()>();
    let to_workers = commands.clone();
    let finite: Vec<bool> = plan.slots.iter().map(|slot| slot.load.iterations().is_some()).collect();
    let users =
        |slot: &Slot| if slot.load.iterations().is_some() { i64::from(slot.load.vus_max()) } else { 0 };
    let running = plan.slots.iter().map(users).collect();
    let complete = finite.clone();
    let pacing = thread::Builder::new().name("pacer".into()).spawn(move || {
        pacer(start, &due, &stop_pacing, &to_workers, &finite, &reports);
    });
    if let Err(error) = pacing {
        return (Ended::Failed(format!("cannot start the pacer's thread: {error}")), Vec::new());
    }

    let mut watch = Watch {
        plan,
        start,
        commands: &commands,
        interval_start: Duration::ZERO,
        gathered: Gathered::default(),
        running,
        complete,
        cpu: Vec::new(),
        ended: Ended::Whole,
    };
    watch.until_all_users_ended(&inbox, stop, &mut on_interval, &mut on_overflow);
    let end = clock::now();
    drop(keep_pacing);
    tell_all(&commands, || Command::Exit);
    watch.until_hung_up(&inbox, &mut on_overflow);
    watch.emit(end, &mut on_interval);
    // A thread that somebody's code blocks is left behind; the process ends soon.
    threads.into_iter().filter(thread::JoinHandle::is_finished).for_each(|thread| {
        let _ = thread.join();
    });
    (watch.ended, watch.cpu)
}

fn pot(load: &LoadModel) -> Pot {
    match load {
        LoadModel::ConstantVus { .. } | LoadModel::RampingVus { .. } => Pot::Unlimited,
        LoadModel::SharedIterations { iterations, .. } => Pot::Shared(Arc::new(AtomicU64::new(*iterations))),
        LoadModel::IterationsPerVu { iterations, .. } => Pot::Each(*iterations),
    }
}

fn pacer(
    start: Instant,
    due: &[(usize, schedule::Due)],
    stop: &Receiver<()>,
    workers: &[UnboundedSender<Command>],
    finite: &[bool],
    reports: &Sender<Report>,
) {
    super::pacer::run(start, due, stop, |slot, due| {
        let to = |vu: u32| &workers[vu as usize % workers.len()];
        match due.action {
            Action::Start { vu } | Action::Retire { vu, .. } | Action::Cut { vu, .. } => {
                if matches!(due.action, Action::Start { .. }) && !finite[slot] {
                    let _ = reports.send(Report::UserDue { slot });
                }
                // A worker that is gone has reported why.
                let _ = to(vu).send(Command::Do { slot, action: due.action });
            }
            Action::RetireAll | Action::CutAll => {
                tell_all(workers, || Command::Do { slot, action: due.action });
                if due.action == Action::RetireAll {
                    let _ = reports.send(Report::Retired { slot });
                }
            }
        }
    });
}

fn tell_all(workers: &[UnboundedSender<Command>], command: impl Fn() -> Command) {
    for worker in workers {
        // A worker that is gone has reported why.
        let _ = worker.send(command());
    }
}

/// What arrived since the last interval was told.
#[derive(Default)]
struct Gathered {
    scenarios: BTreeMap<String, ScenarioStats>,
    /// Users running, by worker and slot, as last reported.
    users: BTreeMap<(usize, usize), u32>,
    peaks: BTreeMap<(usize, usize), u32>,
}

struct Watch<'p> {
    plan: &'p PhasePlan,
    start: Instant,
    commands: &'p [UnboundedSender<Command>],
    interval_start: Duration,
    gathered: Gathered,
    /// Users that were due and have not ended, by slot.
    running: Vec<i64>,
    /// Whether all users of the slot are in `running`: an iteration model's are from the start, those of a timed
    /// model when its time is over.
    complete: Vec<bool>,
    cpu: Vec<f64>,
    ended: Ended,
}

impl Watch<'_> {
    fn until_all_users_ended(
        &mut self,
        inbox: &Receiver<Report>,
        stop: &dyn Fn() -> bool,
        on_interval: &mut impl FnMut(Interval),
        on_overflow: &mut impl FnMut(&str),
    ) {
        let mut next_take = self.start + INTERVAL;
        let mut cut_at: Option<Instant> = None;
        loop {
            match inbox.recv_timeout(GLANCE) {
                Ok(report) => self.take_in(report, on_overflow),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = clock::now();
            if cut_at.is_none() {
                if stop() && self.ended == Ended::Whole {
                    self.ended = Ended::Stopped;
                }
                if self.ended != Ended::Whole {
                    cut_at = Some(now);
                    for slot in 0..self.plan.slots.len() {
                        tell_all(self.commands, || Command::Do { slot, action: Action::CutAll });
                        self.complete[slot] = true;
                    }
                }
            }
            if self.running.iter().zip(&self.complete).all(|(running, complete)| *running == 0 && *complete) {
                return;
            }
            if cut_at.is_some_and(|cut| now > cut + HANG_UP) {
                return;
            }
            if now >= next_take {
                tell_all(self.commands, || Command::Take);
                self.until_taken(inbox, on_overflow);
                self.emit(now, on_interval);
                while next_take <= now {
                    next_take += INTERVAL;
                }
            }
        }
    }

    /// Until every worker has handed its shard over. One that is busy does so later: in the next interval.
    fn until_taken(&mut self, inbox: &Receiver<Report>, on_overflow: &mut impl FnMut(&str)) {
        let until = clock::now() + HAND_OVER;
        let mut missing = self.plan.workers;
        while missing > 0 {
            let Ok(report) = inbox.recv_timeout(until.saturating_duration_since(clock::now())) else {
                return;
            };
            missing -= usize::from(matches!(report, Report::Taken { .. }));
            self.take_in(report, on_overflow);
        }
    }

    fn until_hung_up(&mut self, inbox: &Receiver<Report>, on_overflow: &mut impl FnMut(&str)) {
        let until = clock::now() + HANG_UP;
        // The channel closes when the pacer and every worker are gone.
        while let Ok(report) = inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
            self.take_in(report, on_overflow);
        }
    }

    fn take_in(&mut self, report: Report, on_overflow: &mut impl FnMut(&str)) {
        match report {
            Report::UserDue { slot } => self.running[slot] += 1,
            Report::UserEnded { slot } => self.running[slot] -= 1,
            Report::Retired { slot } => self.complete[slot] = true,
            Report::Failed { slot, message } => {
                let name = &self.plan.slots[slot].name;
                self.fail(format!("scenario `{name}`: the setup of a user failed: {message}"));
            }
            Report::Broken { message } => self.fail(message),
            Report::Cpu { share } => self.cpu.push(share),
            Report::Taken { worker, stats, overflow } => {
                for (slot, stats) in stats.into_iter().enumerate() {
                    self.gathered.users.insert((worker, slot), stats.vus);
                    let peak = self.gathered.peaks.entry((worker, slot)).or_default();
                    *peak = stats.vus_max.max(*peak);
                    self.gathered
                        .scenarios
                        .entry(self.plan.slots[slot].name.clone())
                        .or_default()
                        .merge(&stats);
                }
                if let Some(step) = overflow {
                    on_overflow(&step);
                }
            }
        }
    }

    fn fail(&mut self, message: String) {
        if !matches!(self.ended, Ended::Failed(_)) {
            self.ended = Ended::Failed(message);
        }
    }

    /// Tells what was gathered, as the interval that ends at `end`.
    fn emit(&mut self, end: Instant, on_interval: &mut impl FnMut(Interval)) {
        let end = end.saturating_duration_since(self.start);
        let mut scenarios = std::mem::take(&mut self.gathered.scenarios);
        for (at, slot) in self.plan.slots.iter().enumerate() {
            let stats = scenarios.entry(slot.name.clone()).or_default();
            let of_slot = |map: &BTreeMap<(usize, usize), u32>| -> u32 {
                map.iter().filter(|((_, slot), _)| *slot == at).map(|(_, n)| *n).sum()
            };
            stats.vus = of_slot(&self.gathered.users);
            // The workers' peaks need not fall on one instant.
            stats.vus_max = of_slot(&self.gathered.peaks).min(slot.load.vus_max());
        }
        self.gathered.peaks.clear();
        on_interval(Interval {
            phase: self.plan.phase,
            start_ms: self.interval_start.as_millis() as u64,
            end_ms: end.as_millis() as u64,
            scenarios,
        });
        self.interval_start = end;
    }
}
