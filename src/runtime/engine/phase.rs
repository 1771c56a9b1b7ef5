//! A phase: some scenarios under their load models, together, from the first start to the last end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::Users;
use super::life::Pot;
use super::schedule::{self, Action, Due, Grace};
use super::worker::{self, Command, Place, Report, Work};
use crate::model::health::WorkerSigns;
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

/// Hears how a phase goes.
pub(crate) trait Observer {
    /// All users are set up; the phase's time begins.
    fn started(&mut self);
    fn interval(&mut self, interval: Interval);
    /// The first name, of a step or a check, that found no row of its own.
    fn overflow(&mut self, first: &str);
}

/// Runs the phase to its end on threads of its own, or until `stop` says so. Gives back how it ended, and how each
/// worker thread fared.
pub(crate) fn run(
    plan: &PhasePlan,
    stop: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> (Ended, Vec<WorkerSigns>) {
    let work: Vec<Work> = plan
        .slots
        .iter()
        .map(|slot| Work { users: slot.users.clone(), pot: pot(&slot.load), user_count: slot.load.vus_max() })
        .collect();
    let (reports, inbox) = channel();
    let mut commands = Vec::new();
    let mut threads = Vec::new();
    for worker in 0..plan.workers {
        let (to_worker, from_phase) = unbounded_channel();
        commands.push(to_worker);
        let (work, reports, place) = (work.clone(), reports.clone(), Place { worker, workers: plan.workers });
        let run = move || worker::run(place, &work, from_phase, &reports);
        match thread::Builder::new().name(format!("load-{worker}")).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                return (Ended::Failed(format!("cannot start a worker thread: {error}")), Vec::new());
            }
        }
    }
    // The workers hold the other ends: when all have hung up, nothing more comes.
    drop(reports);
    let mut watch = Watch::new(plan, &commands, stop, observer);
    watch.until_prepared(&inbox);
    let keep_pacing = watch.begin();
    watch.until_done(&inbox);
    let end = clock::now();
    drop(keep_pacing);
    tell_all(&commands, || Command::Exit);
    watch.until_hung_up(&inbox);
    if watch.has_begun {
        watch.emit(end);
    }
    let Watch { fared, ended, .. } = watch;
    // A thread that somebody's code blocks is left behind; the process ends soon.
    threads.into_iter().filter(thread::JoinHandle::is_finished).for_each(|thread| {
        let _ = thread.join();
    });
    (ended, fared)
}

fn pot(load: &LoadModel) -> Pot {
    match load {
        LoadModel::ConstantVus { .. } | LoadModel::RampingVus { .. } => Pot::Unlimited,
        LoadModel::SharedIterations { iterations, .. } => Pot::Shared(Arc::new(AtomicU64::new(*iterations))),
        LoadModel::IterationsPerVu { iterations, .. } => Pot::Each(*iterations),
    }
}

fn tell_all(workers: &[UnboundedSender<Command>], command: impl Fn() -> Command) {
    for worker in workers {
        // A worker that is gone has reported why.
        let _ = worker.send(command());
    }
}

/// Starts the thread that hands out what falls due, until the sender that it gives back is dropped.
fn pace(
    plan: &PhasePlan,
    start: Instant,
    workers: &[UnboundedSender<Command>],
) -> Result<Sender<()>, String> {
    let mut due: Vec<(usize, Due)> = plan
        .slots
        .iter()
        .enumerate()
        .flat_map(|(at, slot)| schedule::of(&slot.load, slot.grace).into_iter().map(move |due| (at, due)))
        .collect();
    due.sort_by_key(|(_, due)| due.at);
    let (keep_pacing, stop) = channel::<()>();
    let workers = workers.to_vec();
    let hand_out = move |slot, due: Due| {
        let command = || Command::Do { slot, action: due.action };
        match due.action {
            Action::Start { vu } | Action::Retire { vu, .. } | Action::Cut { vu, .. } => {
                let place = vu as usize % workers.len();
                tell_all(&workers[place..=place], command);
            }
            Action::RetireAll | Action::CutAll => tell_all(&workers, command),
        }
    };
    thread::Builder::new()
        .name("pacer".into())
        .spawn(move || super::pacer::run(start, &due, &stop, hand_out))
        .map(|_| keep_pacing)
        .map_err(|error| format!("cannot start the pacer's thread: {error}"))
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
    commands: &'p [UnboundedSender<Command>],
    stop: &'p dyn Fn() -> bool,
    observer: &'p mut dyn Observer,
    start: Instant,
    has_begun: bool,
    interval_start: Duration,
    gathered: Gathered,
    /// Users whose setup is not done.
    unprepared: u64,
    /// (Thread, slot) pairs that have users with something left to do.
    undone: usize,
    fared: Vec<WorkerSigns>,
    ended: Ended,
}

impl<'p> Watch<'p> {
    fn new(
        plan: &'p PhasePlan,
        commands: &'p [UnboundedSender<Command>],
        stop: &'p dyn Fn() -> bool,
        observer: &'p mut dyn Observer,
    ) -> Self {
        Self {
            plan,
            commands,
            stop,
            observer,
            start: clock::now(),
            has_begun: false,
            interval_start: Duration::ZERO,
            gathered: Gathered::default(),
            unprepared: plan.slots.iter().map(|slot| u64::from(slot.load.vus_max())).sum(),
            undone: plan.slots.len() * plan.workers,
            fared: Vec::new(),
            ended: Ended::Whole,
        }
    }

    /// Setups are in no figure: no time runs until all are done.
    fn until_prepared(&mut self, inbox: &Receiver<Report>) {
        while self.unprepared > 0 && self.glance(inbox) && self.ended == Ended::Whole {}
    }

    /// Lets the phase's time begin, unless it is over already.
    fn begin(&mut self) -> Option<Sender<()>> {
        self.start = clock::now();
        if self.ended != Ended::Whole {
            return None;
        }
        self.has_begun = true;
        self.observer.started();
        tell_all(self.commands, || Command::Begin);
        match pace(self.plan, self.start, self.commands) {
            Ok(keep_pacing) => Some(keep_pacing),
            Err(message) => {
                self.fail(message);
                None
            }
        }
    }

    fn until_done(&mut self, inbox: &Receiver<Report>) {
        let mut next_take = self.start + INTERVAL;
        let mut cut_at: Option<Instant> = None;
        while self.undone > 0 {
            if self.ended != Ended::Whole && cut_at.is_none() {
                cut_at = Some(clock::now());
                for slot in 0..self.plan.slots.len() {
                    tell_all(self.commands, || Command::Do { slot, action: Action::CutAll });
                }
            }
            if !self.glance(inbox) || cut_at.is_some_and(|cut| clock::now() > cut + HANG_UP) {
                return;
            }
            let now = clock::now();
            if now >= next_take {
                tell_all(self.commands, || Command::Take);
                self.until_taken(inbox);
                self.emit(now);
                while next_take <= now {
                    next_take += INTERVAL;
                }
            }
        }
    }

    /// Takes in what comes next, if something does soon, and looks for a stop; whether anybody is left to tell.
    fn glance(&mut self, inbox: &Receiver<Report>) -> bool {
        match inbox.recv_timeout(GLANCE) {
            Ok(report) => self.take_in(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if self.ended == Ended::Whole && (self.stop)() {
            self.ended = Ended::Stopped;
        }
        true
    }

    /// Until every worker has handed its shard over. One that is busy does so later: in the next interval.
    fn until_taken(&mut self, inbox: &Receiver<Report>) {
        let until = clock::now() + HAND_OVER;
        let mut missing = self.plan.workers;
        while missing > 0 {
            let wait = until.saturating_duration_since(clock::now());
            let Ok(report) = inbox.recv_timeout(wait) else { return };
            missing -= usize::from(matches!(report, Report::Taken { .. }));
            self.take_in(report);
        }
    }

    fn until_hung_up(&mut self, inbox: &Receiver<Report>) {
        let until = clock::now() + HANG_UP;
        while let Ok(report) = inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
            self.take_in(report);
        }
    }

    fn take_in(&mut self, report: Report) {
        match report {
            Report::Prepared => self.unprepared -= 1,
            Report::Done => self.undone -= 1,
            Report::Failed { slot, message } => {
                let name = &self.plan.slots[slot].name;
                self.fail(format!("scenario `{name}`: the setup of a user failed: {message}"));
            }
            Report::Broken { message } => self.fail(message),
            Report::Fared(signs) => self.fared.push(*signs),
            Report::Taken { worker, stats, overflow } => {
                for (slot, stats) in stats.into_iter().enumerate() {
                    self.gathered.users.insert((worker, slot), stats.vus);
                    let peak = self.gathered.peaks.entry((worker, slot)).or_default();
                    *peak = stats.vus_max.max(*peak);
                    let name = self.plan.slots[slot].name.clone();
                    self.gathered.scenarios.entry(name).or_default().merge(&stats);
                }
                if let Some(step) = overflow {
                    self.observer.overflow(&step);
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
    fn emit(&mut self, end: Instant) {
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
        self.observer.interval(Interval {
            phase: self.plan.phase,
            start_ms: self.interval_start.as_millis() as u64,
            end_ms: end.as_millis() as u64,
            scenarios,
        });
        self.interval_start = end;
    }
}
