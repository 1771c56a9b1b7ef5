//! A worker thread: a runtime of its own, on which its users live from the phase's beginning to its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::effort::{Effort, Look};
use super::life::{Bench, Control, Home, Pot, Rows, live};
use super::schedule::Action;
use super::{Seat, Seated, Users, pulse};
use crate::model::health::WorkerSigns;
use crate::model::latency::Latency;
use crate::model::stats::{DropCause, ScenarioStats};
use crate::runtime::record::Shard;
use crate::sys::clock;

/// So many users of a thread set up at a time: a setup may be expensive for the system under test.
const SETUPS: usize = 8;

/// From the phase to a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// What is measured begins now: how the thread fares counts from here.
    Measure,
    Do {
        slot: usize,
        action: Action,
    },
    /// Of slots, so many times; each was due when it says. A free user has been claimed for each.
    Arrive(Vec<(usize, Instant)>),
    /// Iterations of the slot that start before then belong to its warm-up.
    WarmUp {
        slot: usize,
        until: Instant,
    },
    /// Set up a further user of an open model.
    Add {
        slot: usize,
        vu: u32,
    },
    /// Hand the shard over.
    Take,
    Exit,
}

/// From a worker to the phase.
#[derive(Debug)]
pub(super) enum Report {
    /// A user's setup is done.
    Prepared,
    /// A user's setup failed: the phase cannot run.
    Failed { slot: usize, message: String },
    /// A user that was added under load is there, or why it is not.
    Added { slot: usize, setup: Result<(), String> },
    /// No user of the slot on this thread has anything left to do.
    Done { worker: usize, slot: usize },
    Taken {
        worker: usize,
        /// By slot, then by slot for the warm-up.
        stats: Vec<ScenarioStats>,
    },
    /// The last word: what was measured since the shard was handed over last, and how the thread fared.
    HungUp { worker: usize, stats: Vec<ScenarioStats>, signs: Box<WorkerSigns> },
    /// The thread could not be set up at all.
    Broken { message: String },
}

/// One scenario of the phase, as each worker sees it.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) users: Arc<dyn Users>,
    pub(super) pot: Pot,
    /// On all threads together, at first: user n lives on thread n modulo their number.
    pub(super) user_count: u32,
}

/// Which of how many threads this is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) worker: usize,
    pub(super) workers: usize,
}

/// Runs a worker on this thread until it is told to exit, and tells its last word once nothing is left of its users: who
/// hears it may tear down what they shared.
pub(super) fn run(
    place: Place,
    work: Vec<Work>,
    commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) {
    let last = last_word(place, &work, commands, reports);
    drop(work);
    tell(reports, last);
}

fn last_word(
    place: Place,
    work: &[Work],
    commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve(place, work, commands, reports)),
        Err(error) => Report::Broken { message: format!("cannot start a worker thread's runtime: {error}") },
    }
}

/// The phase listens until every worker has hung up.
fn tell(reports: &Sender<Report>, report: Report) {
    let _ = reports.send(report);
}

/// The users of one scenario on this thread.
struct Crew {
    slot: usize,
    seated: Box<dyn Seated>,
    home: Home,
    users: BTreeMap<u32, Rc<Control>>,
    /// Each has its own end; otherwise they end together, when their time does.
    is_finite: bool,
    /// No user of a timed model begins any more.
    is_retired: bool,
    is_over: bool,
    told: bool,
}

async fn serve(
    place: Place,
    work: &[Work],
    mut commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) -> Report {
    // Each slot has a row for its load and one for its warm-up.
    let recordings = work.iter().chain(work).map(|work| work.users.recording());
    let shard = Rc::new(RefCell::new(Shard::new(recordings, clock::now())));
    let (idle, setups) = (Rc::new(Notify::new()), Rc::new(Semaphore::new(SETUPS)));
    let mut lives: Vec<JoinHandle<()>> = Vec::new();
    let mut crews = Vec::new();
    let work_count = work.len();
    for (slot, work) in work.iter().enumerate() {
        let seat = Seat { slot, shard: shard.clone(), workers: place.workers };
        let warm_until = Rc::new(Cell::new(None));
        let home = Home {
            rows: Rows { load: slot, warm_up: work_count + slot, warm_until },
            shard: shard.clone(),
            pot: work.pot.clone(),
            bench: work.pot.pool().map(|pool| Bench::new(pool.clone(), place.worker)),
            setups: setups.clone(),
            idle: idle.clone(),
        };
        let mut crew = Crew::new(slot, work.users.clone().seat(seat), home);
        for vu in (0..work.user_count).filter(|vu| *vu as usize % place.workers == place.worker) {
            let reports = reports.clone();
            lives.push(crew.hire(vu, move |setup| {
                tell(
                    &reports,
                    match setup {
                        Ok(()) => Report::Prepared,
                        Err(message) => Report::Failed { slot, message },
                    },
                );
            }));
        }
        crews.push(crew);
    }
    let worker = place.worker;
    let take = || shard.borrow_mut().take(clock::now());
    let mut effort = Effort::begin(Look::now());
    let lag = RefCell::new(Latency::default());
    let mut pulse = pin!(pulse::feel(&lag));
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Measure) => {
                    effort = Effort::begin(Look::now());
                    lag.take();
                }
                Some(Command::Do { slot, action }) => crews[slot].act(action),
                Some(Command::Arrive(arrivals)) => {
                    arrivals.into_iter().for_each(|(slot, at)| crews[slot].arrive(at));
                }
                Some(Command::WarmUp { slot, until }) => crews[slot].home.rows.warm_until.set(Some(until)),
                // What is over needs nobody.
                Some(Command::Add { slot, .. }) if crews[slot].is_over => {}
                Some(Command::Add { slot, vu }) => {
                    lives.retain(|life| !life.is_finished());
                    lives.push(crews[slot].add(vu, reports));
                }
                Some(Command::Take) => {
                    tell(reports, Report::Taken { worker, stats: take() });
                    effort.look(Look::now());
                }
                Some(Command::Exit) | None => break,
            },
            () = idle.notified() => {}
            () = &mut pulse => {}
        }
        for crew in &mut crews {
            if !crew.told && crew.is_done() {
                crew.told = true;
                tell(reports, Report::Done { worker, slot: crew.slot });
            }
        }
    }
    let (busiest, saturated) = effort.end(Look::now());
    let signs = Box::new(WorkerSigns { busiest, saturated, lag: lag.take() });
    // What still runs is cut off, and counts itself as such, before the last figures are handed over.
    for life in lives {
        life.abort();
        let _ = life.await;
    }
    Report::HungUp { worker, stats: take(), signs }
}

impl Crew {
    fn new(slot: usize, seated: Box<dyn Seated>, home: Home) -> Self {
        let is_finite = matches!(home.pot, Pot::Each(_) | Pot::Shared(_));
        let users = BTreeMap::new();
        Self { slot, seated, home, users, is_finite, is_retired: false, is_over: false, told: false }
    }

    /// A user begins its life: with its setup.
    fn hire(&mut self, vu: u32, prepared: impl FnOnce(Result<(), String>) + 'static) -> JoinHandle<()> {
        let control = Control::new();
        self.users.insert(vu, control.clone());
        let user = self.seated.make(u64::from(vu) + 1);
        tokio::task::spawn_local(live(vu, user, self.home.clone(), control, prepared))
    }

    /// The same under load, in an open model.
    fn add(&mut self, vu: u32, reports: &Sender<Report>) -> JoinHandle<()> {
        let (reports, slot, pot) = (reports.clone(), self.slot, self.home.pot.clone());
        self.hire(vu, move |setup| {
            if let Some(pool) = pot.pool() {
                pool.grown(vu, setup.is_ok());
            }
            tell(&reports, Report::Added { slot, setup });
        })
    }

    /// A user who was claimed for it begins an iteration that was due at `at`.
    fn arrive(&self, at: Instant) {
        let claimed = self.home.bench.as_ref().and_then(|bench| bench.next()).filter(|_| !self.is_over);
        if let Some(user) = claimed {
            return user.arrive(at);
        }
        // The end came first.
        let row = self.home.rows.of_arrival(at);
        self.home.shard.borrow_mut().arrival_dropped(row, DropCause::Generator);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { vu } if !self.is_over => self.user(vu, Control::start),
            // Arrivals have a command of their own.
            Action::Start { .. } | Action::Arrive => {}
            Action::Retire { vu, turn } => self.user(vu, |user| user.retire(turn)),
            Action::Cut { vu, turn } => self.user(vu, |user| user.cut(turn)),
            Action::RetireAll => {
                self.is_retired = true;
                self.home.rows.note_users(&mut self.home.shard.borrow_mut());
                self.users.values().for_each(|user| user.retire(u32::MAX));
            }
            Action::CutAll => {
                self.is_over = true;
                self.users.values().for_each(|user| user.end());
            }
        }
    }

    fn user(&self, vu: u32, act: impl FnOnce(&Control)) {
        if let Some(user) = self.users.get(&vu) {
            act(user);
        }
    }

    fn is_done(&self) -> bool {
        if self.is_finite || self.is_over {
            self.users.values().all(|user| user.is_finished() || self.is_retired && !user.is_busy())
        } else {
            self.is_retired && self.users.values().all(|user| !user.is_busy())
        }
    }
}
