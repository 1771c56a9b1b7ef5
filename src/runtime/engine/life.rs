//! One user's life: prepared once, then waiting, running, retiring and waiting again, until the phase is over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

use super::User;
use crate::runtime::record::Shard;
use crate::sys::clock;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For its setup, its start, or its next start.
    Waiting,
    Running,
    /// Waits again after its iteration; the turn is the schedule's.
    Retiring(u32),
    /// Waits again at once: its iteration is cut off.
    Cutting,
    /// Its iteration is cut off, and there will be no other.
    Over,
}

/// What the worker says to a user, and sees of it.
#[derive(Debug)]
pub(super) struct Control {
    state: Cell<State>,
    changed: Notify,
    /// Started, and not yet waiting again.
    busy: Cell<bool>,
    finished: Cell<bool>,
}

impl Control {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            state: Cell::new(State::Waiting),
            changed: Notify::new(),
            busy: Cell::new(false),
            finished: Cell::new(false),
        })
    }

    /// The user begins, or goes on where it was about to retire.
    pub(super) fn start(&self) {
        if matches!(self.state.get(), State::Waiting | State::Retiring(_)) && !self.finished.get() {
            self.busy.set(true);
            self.set(State::Running);
        }
    }

    pub(super) fn retire(&self, turn: u32) {
        if self.state.get() == State::Running {
            self.set(State::Retiring(turn));
        }
    }

    /// Cuts off the iteration of a user that has not ended it since it was to retire at `turn`.
    pub(super) fn cut(&self, turn: u32) {
        if self.state.get() == State::Retiring(turn) {
            self.set(State::Cutting);
        }
    }

    pub(super) fn end(&self) {
        self.set(State::Over);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Nothing more will come of the user: it has had its iterations, or it is over.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.get()
    }

    fn set(&self, state: State) {
        self.state.set(state);
        self.changed.notify_one();
    }

    async fn until(&self, fits: impl Fn(State) -> bool) {
        while !fits(self.state.get()) {
            self.changed.notified().await;
        }
    }
}

/// What a user needs of the thread that it lives on.
pub(super) struct Home {
    pub(super) slot: usize,
    pub(super) shard: Rc<RefCell<Shard>>,
    pub(super) pot: Pot,
    /// Lets so many users set up at a time.
    pub(super) setups: Rc<Semaphore>,
    /// Told whenever a user waits again or has finished.
    pub(super) idle: Rc<Notify>,
}

/// Lives a user's life. `prepared` is told when its setup is done, with the message where it failed.
pub(super) async fn live(
    mut user: Box<dyn User>,
    home: Home,
    control: Rc<Control>,
    prepared: impl FnOnce(Result<(), String>),
) {
    let setup = async {
        // The semaphore is never closed.
        let _turn = home.setups.acquire().await;
        user.prepare().await
    };
    let is_set_up = tokio::select! {
        biased;
        () = control.until(|state| state == State::Over) => false,
        ended = setup => {
            let is_set_up = ended.is_ok();
            prepared(ended);
            is_set_up
        }
    };
    if is_set_up {
        work(&mut *user, &home, &control).await;
    }
    control.busy.set(false);
    control.finished.set(true);
    home.idle.notify_one();
}

/// Runs whenever the user is to, until it is over or has had all its iterations.
async fn work(user: &mut dyn User, home: &Home, control: &Control) {
    let mut begun = 0;
    loop {
        control.until(|state| state != State::Waiting).await;
        if control.state.get() == State::Over {
            return;
        }
        let exhausted = run(user, home, control, &mut begun).await;
        if exhausted || control.state.get() == State::Over {
            return;
        }
        control.state.set(State::Waiting);
        control.busy.set(false);
        home.idle.notify_one();
    }
}

/// Iterations until the user is to stop; whether it has had them all.
async fn run(user: &mut dyn User, home: &Home, control: &Control, begun: &mut u64) -> bool {
    let mut exhausted = false;
    home.shard.borrow_mut().user_started(home.slot, clock::now());
    while control.state.get() == State::Running {
        exhausted = !home.pot.take(*begun);
        if exhausted {
            break;
        }
        *begun += 1;
        tokio::select! {
            biased;
            () = control.until(|state| matches!(state, State::Cutting | State::Over)) => break,
            () = user.iterate() => {}
        }
        // An iteration that never waits would keep the thread from all others.
        tokio::task::yield_now().await;
    }
    home.shard.borrow_mut().user_ended(home.slot, clock::now());
    exhausted
}
