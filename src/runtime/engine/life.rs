//! One user's life: prepared once, then waiting, running, retiring and waiting again, until the phase is over.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

use tokio::sync::{Notify, Semaphore};

use super::pool::Pool;
use super::{Start, User};
use crate::model::stats::DropCause;
use crate::runtime::record::Shard;
use crate::sys::clock;

/// How many iterations a user may begin.
#[derive(Debug, Clone)]
pub(super) enum Pot {
    Unlimited,
    Each(u64),
    Shared(Arc<AtomicU64>),
    /// One for each arrival.
    Arrivals(Arc<Pool>),
}

impl Pot {
    /// Of an open model.
    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        match self {
            Self::Arrivals(pool) => Some(pool),
            _ => None,
        }
    }

    /// Takes one iteration out, if there is one; `begun` is how many the user has had.
    fn take(&self, begun: u64) -> bool {
        match self {
            Self::Unlimited | Self::Arrivals(_) => true,
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
    /// Goes on once its iteration is cut off.
    Restarting,
    /// Its iteration is cut off, and there will be no other.
    Over,
}

/// What the worker says to a user, and sees of it.
#[derive(Debug)]
pub(super) struct Control {
    state: Cell<State>,
    /// When the iteration was due that the user is to begin.
    arrival: Cell<Option<Instant>>,
    changed: Notify,
    /// Started, and not yet waiting again.
    busy: Cell<bool>,
    finished: Cell<bool>,
}

impl Control {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            state: Cell::new(State::Waiting),
            arrival: Cell::new(None),
            changed: Notify::new(),
            busy: Cell::new(false),
            finished: Cell::new(false),
        })
    }

    /// The user begins, or goes on where it was about to retire; an iteration that is to be cut off is so first.
    pub(super) fn start(&self) {
        let state = match self.state.get() {
            State::Waiting | State::Retiring(_) => State::Running,
            State::Cutting => State::Restarting,
            State::Running | State::Restarting | State::Over => return,
        };
        if !self.finished.get() {
            self.busy.set(true);
            self.set(state);
        }
    }

    /// The user, which waits, begins one iteration that was due at `at`.
    pub(super) fn arrive(&self, at: Instant) {
        self.arrival.set(Some(at));
        self.start();
    }

    pub(super) fn retire(&self, turn: u32) {
        match self.state.get() {
            State::Running => self.set(State::Retiring(turn)),
            State::Restarting => self.set(State::Cutting),
            State::Waiting | State::Retiring(_) | State::Cutting | State::Over => {}
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

/// The users of an open model on one thread who wait for arrivals. The one that has waited longest comes first.
#[derive(Debug)]
pub(super) struct Bench {
    waiting: RefCell<VecDeque<Rc<Control>>>,
    pool: Arc<Pool>,
    worker: usize,
}

impl Bench {
    pub(super) fn new(pool: Arc<Pool>, worker: usize) -> Rc<Self> {
        Rc::new(Self { waiting: RefCell::default(), pool, worker })
    }

    /// A user that has been set up waits, and is free.
    fn sit(&self, user: &Rc<Control>) {
        self.waiting.borrow_mut().push_back(user.clone());
        self.pool.join(self.worker);
    }

    /// The next user, if one waits.
    pub(super) fn next(&self) -> Option<Rc<Control>> {
        self.waiting.borrow_mut().pop_front()
    }
}

/// Where a scenario's figures go on one thread.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) load: usize,
    pub(super) warm_up: usize,
    /// Iterations that start before belong to the warm-up.
    pub(super) warm_until: Rc<Cell<Option<Instant>>>,
}

impl Rows {
    /// How an iteration begins now, or was due.
    fn start(&self, scheduled: Option<Instant>) -> Start {
        let is_warm_up =
            self.warm_until.get().is_some_and(|until| scheduled.unwrap_or_else(clock::now) < until);
        Start { row: if is_warm_up { self.warm_up } else { self.load }, is_warm_up, scheduled }
    }

    /// Where an arrival counts that was due at `at`.
    pub(super) fn of_arrival(&self, at: Instant) -> usize {
        self.start(Some(at)).row
    }

    /// Whoever is at work is so at the end of the load's time.
    pub(super) fn note_users(&self, shard: &mut Shard) {
        [self.load, self.warm_up].into_iter().for_each(|row| shard.note_users(row));
    }
}

/// What a user needs of the thread that it lives on.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) rows: Rows,
    pub(super) shard: Rc<RefCell<Shard>>,
    pub(super) pot: Pot,
    /// In an open model.
    pub(super) bench: Option<Rc<Bench>>,
    /// Lets so many users set up at a time.
    pub(super) setups: Rc<Semaphore>,
    /// Told whenever a user waits again or has finished.
    pub(super) idle: Rc<Notify>,
}

/// Lives the life of user `vu`. `prepared` is told when its setup is done, with the message where it failed.
pub(super) async fn live(
    vu: u32,
    mut user: Box<dyn User>,
    home: Home,
    control: Rc<Control>,
    prepared: impl FnOnce(Result<(), String>),
) {
    let _end = End { control: control.clone(), idle: home.idle.clone() };
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
            if let Some(bench) = home.bench.as_ref().filter(|_| is_set_up) {
                // First: whoever hears that the user is there counts on it, and gives the next its number.
                bench.sit(&control);
            }
            prepared(ended);
            is_set_up
        }
    };
    match &home.bench {
        _ if !is_set_up => {}
        Some(bench) => serve(vu, &mut *user, &home, bench, &control).await,
        None => work(&mut *user, &home, &control).await,
    }
}

/// The end of a user's life, by a panic too: nobody waits for it any longer.
struct End {
    control: Rc<Control>,
    idle: Rc<Notify>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.control.busy.set(false);
        self.control.finished.set(true);
        self.idle.notify_one();
    }
}

/// A user that is counted as at work, until this is dropped: by a panic too.
struct AtWork<'h> {
    shard: &'h RefCell<Shard>,
    row: usize,
}

impl<'h> AtWork<'h> {
    fn begin(home: &'h Home, row: usize) -> Self {
        home.shard.borrow_mut().user_started(row, clock::now());
        Self { shard: &home.shard, row }
    }

    /// The user goes on in another row.
    fn move_to(&mut self, row: usize) {
        let (mut shard, now) = (self.shard.borrow_mut(), clock::now());
        shard.user_ended(self.row, now);
        shard.user_started(row, now);
        self.row = row;
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.shard.borrow_mut().user_ended(self.row, clock::now());
    }
}

/// A user of an open model that was claimed: dropped before it is given back, it is lost to the pool.
struct Claimed<'h> {
    pool: &'h Pool,
    vu: u32,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.pool.lose(self.vu);
        }
    }
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
        if control.state.get() == State::Restarting {
            control.state.set(State::Running);
            continue;
        }
        control.state.set(State::Waiting);
        control.busy.set(false);
        home.idle.notify_one();
    }
}

/// One iteration for each arrival, until the user, which sits on the bench, is over.
async fn serve(vu: u32, user: &mut dyn User, home: &Home, bench: &Bench, control: &Rc<Control>) {
    loop {
        control.until(|state| state != State::Waiting).await;
        let is_over = || control.state.get() == State::Over;
        if let Some(at) = control.arrival.take() {
            let start = home.rows.start(Some(at));
            if is_over() {
                // The end came before its thread did.
                home.shard.borrow_mut().arrival_dropped(start.row, DropCause::Generator);
                return;
            }
            let _claimed = Claimed { pool: &bench.pool, vu };
            let _at_work = AtWork::begin(home, start.row);
            tokio::select! {
                biased;
                () = control.until(|state| state == State::Over) => {}
                () = user.iterate(start) => {}
            }
        }
        if is_over() {
            return;
        }
        control.state.set(State::Waiting);
        control.busy.set(false);
        bench.waiting.borrow_mut().push_back(control.clone());
        bench.pool.release(bench.worker);
        home.idle.notify_one();
    }
}

/// Iterations until the user is to stop; whether it has had them all.
async fn run(user: &mut dyn User, home: &Home, control: &Control, begun: &mut u64) -> bool {
    let mut exhausted = false;
    let mut at_work = AtWork::begin(home, home.rows.start(None).row);
    // One wait for all iterations: to begin it anew takes a lock.
    let mut cut =
        pin!(control.until(|state| { matches!(state, State::Cutting | State::Restarting | State::Over) }));
    while control.state.get() == State::Running {
        exhausted = !home.pot.take(*begun);
        if exhausted {
            break;
        }
        *begun += 1;
        let start = home.rows.start(None);
        if start.row != at_work.row {
            at_work.move_to(start.row);
        }
        let mut waited = false;
        let mut iteration = user.iterate(start);
        let cut_off = poll_fn(|cx| {
            if cut.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            let ended = iteration.as_mut().poll(cx).map(|()| false);
            waited |= ended.is_pending();
            ended
        });
        if cut_off.await {
            break;
        }
        // An iteration that never waits would keep the thread from all others.
        if !waited {
            tokio::task::yield_now().await;
        }
    }
    exhausted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;
    use crate::model::tags::Tags;
    use crate::runtime::record::Recording;
    use futures_util::future::LocalBoxFuture;
    use tokio::runtime::{Builder, LocalOptions};

    /// Does in an iteration what it is told.
    struct Told<F>(F);

    impl<Work: Future<Output = ()> + 'static, F: FnMut() -> Work> User for Told<F> {
        fn prepare(&mut self) -> LocalBoxFuture<'_, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }

        fn iterate(&mut self, _: Start) -> LocalBoxFuture<'_, ()> {
            Box::pin((self.0)())
        }
    }

    fn home(pot: Pot) -> Home {
        let recording = Arc::new(Recording::new(&sample::infos()[0], Tags::default(), 10));
        Home {
            rows: Rows { load: 0, warm_up: 0, warm_until: Rc::default() },
            shard: Rc::new(RefCell::new(Shard::new([recording].into_iter(), clock::now()))),
            bench: pot.pool().map(|pool| Bench::new(pool.clone(), 0)),
            pot,
            setups: Rc::new(Semaphore::new(1)),
            idle: Rc::default(),
        }
    }

    fn on_a_thread_of_its_own(test: impl Future<Output = ()>) {
        Builder::new_current_thread().build_local(LocalOptions::default()).unwrap().block_on(test);
    }

    #[test]
    fn a_further_user_is_counted_before_the_next_gets_its_number() {
        on_a_thread_of_its_own(async {
            let pool = Arc::new(Pool::new(1, 0, 3));
            assert_eq!(pool.grow(), Some(0));
            let (of_user, control) = (pool.clone(), Control::new());
            let ends = control.clone();
            let prepared = move |_| {
                of_user.grown(0, true);
                assert_eq!(of_user.grow(), Some(1));
                ends.end();
            };
            let user = Box::new(Told(std::future::pending::<()>));
            live(0, user, home(Pot::Arrivals(pool)), control.clone(), prepared).await;
            assert!(control.is_finished());
        });
    }

    #[test]
    fn a_user_that_is_started_while_it_is_cut_off_goes_on() {
        on_a_thread_of_its_own(async {
            let begun = Rc::new(Cell::new(0));
            let count = begun.clone();
            let user = Told(move || {
                count.set(count.get() + 1);
                std::future::pending()
            });
            let control = Control::new();
            let life = live(0, Box::new(user), home(Pot::Unlimited), control.clone(), |_| {});
            let life = tokio::task::spawn_local(life);
            let begun_after = async |acts: &[&dyn Fn(&Control)]| {
                acts.iter().for_each(|act| act(&control));
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                (begun.get(), control.is_busy())
            };
            let (start, cut) = (&Control::start, &|user: &Control| user.cut(1));
            let retire = &|user: &Control| user.retire(1);
            assert_eq!(begun_after(&[start]).await, (1, true));
            assert_eq!(begun_after(&[retire, cut, start]).await, (2, true));
            assert_eq!(begun_after(&[retire, cut, start, retire]).await, (2, false));
            assert_eq!(begun_after(&[start]).await, (3, true));
            control.end();
            life.await.unwrap();
            assert!(control.is_finished() && !control.is_busy());
        });
    }

    #[test]
    fn a_user_that_a_panic_ends_is_waited_for_no_longer() {
        on_a_thread_of_its_own(async {
            let user = Told(|| -> std::future::Ready<()> { panic!("outside of what is caught") });
            let (home, control) = (home(Pot::Unlimited), Control::new());
            let idle = home.idle.clone();
            let life = tokio::task::spawn_local(live(0, Box::new(user), home, control.clone(), |_| {}));
            control.start();
            assert!(life.await.unwrap_err().is_panic());
            idle.notified().await;
            assert!(control.is_finished() && !control.is_busy());
        });
    }

    #[test]
    fn a_user_of_an_open_model_that_a_panic_ends_is_at_work_no_longer_and_may_be_replaced() {
        on_a_thread_of_its_own(async {
            let pool = Arc::new(Pool::new(1, 2, 2));
            let home = home(Pot::Arrivals(pool.clone()));
            let (shard, bench) = (home.shard.clone(), home.bench.clone().unwrap());
            for vu in 0..2 {
                let user = Told(|| -> std::future::Ready<()> { panic!("outside of what is caught") });
                tokio::task::spawn_local(live(vu, Box::new(user), home.clone(), Control::new(), |_| {}));
            }
            for lost in [1, 2] {
                tokio::task::yield_now().await;
                assert_eq!(pool.claim(0, false), Some(0));
                bench.next().unwrap().arrive(clock::now());
                home.idle.notified().await;
                let users = shard.borrow_mut().take(clock::now())[0].vus;
                assert_eq!((pool.at_work(), users), (0, 0), "{lost}");
            }
            assert_eq!(pool.claim(0, false), None);
            let place = pool.grow().unwrap();
            let user = Told(|| std::future::ready(()));
            let (life, of_pool) = (live(place, Box::new(user), home, Control::new(), |_| {}), pool.clone());
            tokio::task::spawn_local(life);
            tokio::task::yield_now().await;
            of_pool.grown(place, true);
            assert_eq!((place < 2, pool.claim(0, false), pool.grow().is_some()), (true, Some(0), true));
        });
    }
}
