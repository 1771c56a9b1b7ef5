//! A worker thread: a runtime of its own, on which its users live from start to end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use tokio::runtime::LocalOptions;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use super::schedule::Action;
use super::{Seat, Seated, User, Users};
use crate::model::stats::ScenarioStats;
use crate::runtime::record::Shard;
use crate::sys::clock;

/// From the phase to a worker.
#[derive(Debug)]
pub(super) enum Command {
    Do {
        slot: usize,
        action: Action,
    },
    /// Hand the shard over.
    Take,
    Exit,
}

/// From a worker to the phase.
#[derive(Debug)]
pub(super) enum Report {
    Taken {
        worker: usize,
        stats: Vec<ScenarioStats>,
        overflow: Option<String>,
    },
    /// The pacer is about to start a user.
    UserDue {
        slot: usize,
    },
    UserEnded {
        slot: usize,
    },
    /// No further user of the slot begins.
    Retired {
        slot: usize,
    },
    /// A user's setup failed: the phase cannot run.
    Failed {
        slot: usize,
        message: String,
    },
    /// The thread is at its end; the part of its life that it had a CPU.
    Cpu {
        share: f64,
    },
    /// The thread could not be set up at all.
    Broken {
        message: String,
    },
}

/// How many iterations a user may begin.
#[derive(Debug, Clone)]
pub(super) enum Pot {
    Unlimited,
    Each(u64),
    Shared(Arc<AtomicU64>),
}

impl Pot {
    /// Takes one iteration out, if there is one; `begun` is how many the user has had.
    fn take(&self, begun: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Each(n) => begun < *n,
            Self::Shared(left) => {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            }
        }
    }
}

/// One scenario of the phase, as each worker sees it.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) users: Arc<dyn Users>,
    pub(super) pot: Pot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// Ends after its iteration; the turn is the schedule's.
    Retiring(u32),
    Cut,
    Ended,
}

struct Control {
    state: Cell<State>,
    cut: Notify,
}

impl Control {
    fn cut(&self) {
        self.state.set(State::Cut);
        self.cut.notify_one();
    }
}

/// Runs a worker on this thread until it is told to exit.
pub(super) fn run(
    (worker, workers): (usize, usize),
    work: &[Work],
    commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve((worker, workers), work, commands, reports)),
        Err(error) => {
            // The phase ends when all workers have hung up; a lost report changes nothing then.
            let _ = reports
                .send(Report::Broken { message: format!("cannot start a worker thread's runtime: {error}") });
        }
    }
}

async fn serve(
    (worker, workers): (usize, usize),
    work: &[Work],
    mut commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) {
    let born = (clock::now(), clock::thread_cpu_nanos());
    let shard = Rc::new(RefCell::new(Shard::new(work.len(), clock::now())));
    let seat = |slot| Seat { slot, shard: shard.clone(), workers };
    let seated: Vec<Box<dyn Seated>> =
        work.iter().enumerate().map(|(slot, work)| work.users.clone().seat(seat(slot))).collect();
    let mut users: Vec<HashMap<u32, Rc<Control>>> = vec![HashMap::new(); work.len()];
    let take = || {
        let mut shard = shard.borrow_mut();
        let (stats, overflow) = (shard.take(clock::now()), shard.take_overflow());
        let _ = reports.send(Report::Taken { worker, stats, overflow });
    };
    while let Some(command) = commands.recv().await {
        match command {
            Command::Take => take(),
            Command::Exit => break,
            Command::Do { slot, action } => match action {
                Action::Start { vu } => {
                    let known = users[slot]
                        .get(&vu)
                        .filter(|user| matches!(user.state.get(), State::Running | State::Retiring(_)));
                    if let Some(user) = known {
                        user.state.set(State::Running);
                        // The user that was due is one that is there already.
                        let _ = reports.send(Report::UserEnded { slot });
                        continue;
                    }
                    let control = Rc::new(Control { state: Cell::new(State::Running), cut: Notify::new() });
                    users[slot].insert(vu, control.clone());
                    let user = seated[slot].make(u64::from(vu) + 1);
                    let pot = work[slot].pot.clone();
                    tokio::task::spawn_local(live(user, pot, seat(slot), control, reports.clone()));
                }
                Action::Retire { vu, turn } => {
                    if let Some(user) = users[slot].get(&vu).filter(|user| user.state.get() == State::Running)
                    {
                        user.state.set(State::Retiring(turn));
                    }
                }
                Action::Cut { vu, turn } => {
                    if let Some(user) =
                        users[slot].get(&vu).filter(|user| user.state.get() == State::Retiring(turn))
                    {
                        user.cut();
                    }
                }
                Action::RetireAll => {
                    for user in users[slot].values().filter(|user| user.state.get() == State::Running) {
                        user.state.set(State::Retiring(u32::MAX));
                    }
                }
                Action::CutAll => {
                    for user in users[slot].values().filter(|user| user.state.get() != State::Ended) {
                        user.cut();
                    }
                }
            },
        }
    }
    take();
    if let (Some(before), Some(after)) = (born.1, clock::thread_cpu_nanos()) {
        let lived = clock::now().saturating_duration_since(born.0).as_nanos().max(1);
        let _ = reports.send(Report::Cpu { share: after.saturating_sub(before) as f64 / lived as f64 });
    }
}

/// One user from start to end.
async fn live(mut user: Box<dyn User>, pot: Pot, seat: Seat, control: Rc<Control>, reports: Sender<Report>) {
    let (slot, shard) = (seat.slot, seat.shard.clone());
    let tell = |report| {
        // The phase listens until every worker has hung up.
        let _ = reports.send(report);
    };
    let prepared = tokio::select! {
        biased;
        () = control.cut.notified() => None,
        prepared = user.prepare() => Some(prepared),
    };
    match prepared {
        Some(Ok(())) => {
            shard.borrow_mut().user_started(slot, clock::now());
            let mut begun = 0;
            while control.state.get() == State::Running && pot.take(begun) {
                begun += 1;
                tokio::select! {
                    biased;
                    () = control.cut.notified() => break,
                    () = user.iterate() => {}
                }
                // An iteration that never waits would keep the thread from all others.
                tokio::task::yield_now().await;
            }
            shard.borrow_mut().user_ended(slot, clock::now());
        }
        Some(Err(message)) => tell(Report::Failed { slot, message }),
        None => {}
    }
    control.state.set(State::Ended);
    tell(Report::UserEnded { slot });
}
