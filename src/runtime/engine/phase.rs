//! A phase: some scenarios under their load models, together, from the first start to the last end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::Users;
use super::hand_out::{SlotState, Workers};
use super::life::Pot;
use super::pacer::{self, Begin, Clock, Lane};
use super::pool::Pool;
use super::schedule::{self, Grace};
use super::watch::Watch;
use super::worker::{self, Command, Place, Work};
use crate::model::event::Warning;
use crate::model::health::WorkerSigns;
use crate::model::load::{LoadModel, Timing};
use crate::model::stats::{Interval, Phase};

/// One scenario of a phase.
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) load: LoadModel,
    pub(crate) grace: Grace,
    pub(crate) timing: Timing,
    /// Decides about arrivals at random.
    pub(crate) seed: u64,
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

/// A phase that is over.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) ended: Ended,
    /// How each worker thread fared that came to its end.
    pub(crate) workers: Vec<WorkerSigns>,
    /// Worker threads that did not: somebody's code blocks them.
    pub(crate) blocked: usize,
}

impl Closed {
    fn failed(message: String) -> Self {
        Self { ended: Ended::Failed(message), workers: Vec::new(), blocked: 0 }
    }
}

/// Hears how a phase goes.
pub(crate) trait Observer {
    /// All users are set up; the phase's time begins.
    fn started(&mut self);
    /// The first scenario is measured from now on: its warm-up is over.
    fn measuring(&mut self);
    fn interval(&mut self, interval: Interval);
    /// Nothing runs any more; one interval is still to come.
    fn over(&mut self);
    /// A doubt about the load.
    fn warning(&mut self, warning: Warning);
}

/// Runs the phase to its end on threads of its own, or until `stop` says so.
pub(crate) fn run(plan: &PhasePlan, stop: &dyn Fn() -> bool, observer: &mut dyn Observer) -> Closed {
    let work: Vec<Work> = plan
        .slots
        .iter()
        .map(|slot| Work {
            users: slot.users.clone(),
            pot: pot(&slot.load, plan.workers),
            user_count: slot.load.vus_at_first(),
        })
        .collect();
    let pools: Vec<Option<Arc<Pool>>> = work.iter().map(|work| work.pot.pool().cloned()).collect();
    let (reports, inbox) = channel();
    let mut commands = Vec::new();
    let mut threads = Vec::new();
    for worker in 0..plan.workers {
        let (to_worker, from_phase) = unbounded_channel();
        commands.push(to_worker);
        let (work, reports, place) = (work.clone(), reports.clone(), Place { worker, workers: plan.workers });
        let run = move || worker::run(place, work, from_phase, &reports);
        match thread::Builder::new().name(format!("load-{worker}")).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                return Closed::failed(format!("cannot start a worker thread: {error}"));
            }
        }
    }
    // The workers hold the other ends: when all have hung up, nothing more comes.
    drop(reports);
    let mut watch = Watch::new(plan, &commands, &pools, stop, observer);
    watch.until_prepared(&inbox);
    watch.begin();
    watch.until_done(&inbox);
    let closed = watch.end(&inbox);
    // A thread that somebody's code blocks is left behind; the process ends soon.
    threads.into_iter().filter(thread::JoinHandle::is_finished).for_each(|thread| {
        let _ = thread.join();
    });
    closed
}

fn pot(load: &LoadModel, workers: usize) -> Pot {
    match load {
        LoadModel::ConstantArrivalRate { .. } | LoadModel::RampingArrivalRate { .. } => {
            Pot::Arrivals(Arc::new(Pool::new(workers, load.vus_at_first(), load.vus_max())))
        }
        LoadModel::ConstantVus { .. } | LoadModel::RampingVus { .. } => Pot::Unlimited,
        LoadModel::SharedIterations { iterations, .. } => Pot::Shared(Arc::new(AtomicU64::new(*iterations))),
        LoadModel::IterationsPerVu { iterations, .. } => Pot::Each(*iterations),
    }
}

pub(super) fn tell_all(workers: &[UnboundedSender<Command>], command: impl Fn() -> Command) {
    for worker in workers {
        // A worker that is gone has reported why.
        let _ = worker.send(command());
    }
}

/// The pacer's thread, which ends when this is dropped.
pub(super) struct Pacing {
    /// Begins the load of a slot.
    pub(super) begin: Sender<Begin>,
    /// Slots of which everything has been told to be cut off.
    pub(super) cuts: Receiver<usize>,
}

/// Starts the thread that hands out what falls due: to each slot from when it is told to begin.
pub(super) fn pace(
    plan: &PhasePlan,
    workers: &[UnboundedSender<Command>],
    pools: &[Option<Arc<Pool>>],
) -> Result<Pacing, String> {
    let lane =
        |slot: &Slot| Lane::new(schedule::of(&slot.load, slot.grace, slot.seed), slot.load.open().is_some());
    let lanes = plan.slots.iter().map(lane).collect();
    let slots = plan.slots.iter().zip(pools).map(|(slot, pool)| SlotState {
        pool: pool.clone(),
        warm_up: slot.timing.warm_up,
        warm_until: None,
    });
    let (cut, cuts) = channel();
    let mut out = Workers::new(workers.to_vec(), slots.collect(), cut);
    let (begin, news) = channel();
    thread::Builder::new()
        .name("pacer".into())
        .spawn(move || pacer::run(lanes, &mut Clock { news: &news }, &mut out))
        .map(|_| Pacing { begin, cuts })
        .map_err(|error| format!("cannot start the pacer's thread: {error}"))
}
