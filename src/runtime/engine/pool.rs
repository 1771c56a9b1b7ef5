//! Who of an open model's users is free. Worker threads say so; the pacer alone gives users out, so that a user it has
//! claimed is there.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::stats::DropCause;

const CAUSES: [DropCause; 2] = [DropCause::Pool, DropCause::Generator];

/// After so many setups in a row that failed, no further user is added.
pub(super) const FAILURES: u32 = 3;

/// The users of one open model, over all worker threads, and the arrivals that none of them took.
#[derive(Debug)]
pub(super) struct Pool {
    /// By worker thread.
    free: Vec<AtomicU32>,
    /// Set up, free or not.
    users: AtomicU32,
    most: u32,
    /// The number of the next user that was never there.
    next: AtomicU32,
    /// Numbers of users that are gone, for those who come in their place.
    vacant: Mutex<Vec<u32>>,
    /// A further user is being set up.
    growing: AtomicBool,
    /// Further users in a row whose setup failed.
    failures: AtomicU32,
    /// The most users at work at a time since it was last asked for, but for the warm-up.
    peak: AtomicU32,
    /// By cause, of the load and of its warm-up.
    dropped: [[AtomicU64; CAUSES.len()]; 2],
}

impl Pool {
    /// A pool of nobody yet. The first `first` have their numbers; with those that are added there are at most `most`.
    pub(super) fn new(workers: usize, first: u32, most: u32) -> Self {
        Self {
            free: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            users: AtomicU32::new(0),
            most,
            next: AtomicU32::new(first),
            vacant: Mutex::default(),
            growing: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            dropped: Default::default(),
        }
    }

    /// A user has been set up on `worker`, and is free.
    pub(super) fn join(&self, worker: usize) {
        // In this order nobody is ever counted as at work who is not.
        self.free[worker].fetch_add(1, Ordering::SeqCst);
        self.users.fetch_add(1, Ordering::SeqCst);
    }

    /// A user on `worker` has ended its iteration.
    pub(super) fn release(&self, worker: usize) {
        self.free[worker].fetch_add(1, Ordering::SeqCst);
    }

    /// A user that was at work is gone: a panic got past all that catches it. Another may come in its place.
    pub(super) fn lose(&self, vu: u32) {
        self.vacant().push(vu);
        self.users.fetch_sub(1, Ordering::SeqCst);
    }

    /// Nobody panics while it is held, and what is in it is whole at any time.
    fn vacant(&self) -> MutexGuard<'_, Vec<u32>> {
        self.vacant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of the free users of the thread that has most of them; `turn` changes hands between equals.
    pub(super) fn claim(&self, turn: usize, is_warm_up: bool) -> Option<usize> {
        let workers = self.free.len();
        let free = |worker: usize| self.free[worker].load(Ordering::SeqCst);
        let (most, worker) = (0..workers)
            .map(|nth| (turn + nth) % workers)
            .map(|worker| (free(worker), worker))
            .reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        if most == 0 {
            return None;
        }
        self.free[worker].fetch_sub(1, Ordering::SeqCst);
        if !is_warm_up {
            self.peak.fetch_max(self.at_work(), Ordering::SeqCst);
        }
        Some(worker)
    }

    /// Users who are in an iteration now.
    pub(super) fn at_work(&self) -> u32 {
        let users = self.users.load(Ordering::SeqCst);
        users.saturating_sub(self.free.iter().map(|free| free.load(Ordering::SeqCst)).sum())
    }

    /// The most users who were at work at a time since the last call, if that was measured.
    pub(super) fn take_peak(&self, is_measured: bool) -> u32 {
        self.peak.swap(if is_measured { self.at_work() } else { 0 }, Ordering::SeqCst)
    }

    /// The number (from 0) of a further user to be set up, if there may be one and none is on its way.
    pub(super) fn grow(&self) -> Option<u32> {
        let users = self.users.load(Ordering::SeqCst);
        let may = users < self.most && self.failures.load(Ordering::SeqCst) < FAILURES;
        if !may || self.growing.swap(true, Ordering::SeqCst) {
            return None;
        }
        let number = self.vacant().pop();
        Some(number.unwrap_or_else(|| self.next.fetch_add(1, Ordering::SeqCst)))
    }

    /// The user `vu` that was to be set up is there, or never will be.
    pub(super) fn grown(&self, vu: u32, is_there: bool) {
        let failures = if is_there { 0 } else { self.failures.load(Ordering::SeqCst) + 1 };
        if !is_there {
            self.vacant().push(vu);
        }
        self.failures.store(failures, Ordering::SeqCst);
        self.growing.store(false, Ordering::SeqCst);
    }

    /// Counts an arrival that became no iteration.
    pub(super) fn drop_arrival(&self, cause: DropCause, is_warm_up: bool) {
        let at = CAUSES.iter().position(|known| *known == cause).unwrap_or_default();
        self.dropped[usize::from(is_warm_up)][at].fetch_add(1, Ordering::Relaxed);
    }

    /// What was dropped since the last call.
    pub(super) fn take_dropped(&self, is_warm_up: bool) -> impl Iterator<Item = (DropCause, u64)> {
        let dropped = &self.dropped[usize::from(is_warm_up)];
        CAUSES.into_iter().zip(dropped).map(|(cause, count)| (cause, count.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_given_out_where_most_are_free_and_no_more_than_there_are() {
        let pool = Pool::new(2, 3, 3);
        assert_eq!(pool.claim(0, false), None);
        for worker in [0, 1, 1] {
            pool.join(worker);
        }
        let claims = [0, 1, 0, 0].map(|turn| pool.claim(turn, false));
        assert_eq!((claims, pool.at_work()), ([Some(1), Some(1), Some(0), None], 3));
        pool.release(0);
        assert_eq!((pool.take_peak(true), pool.take_peak(true), pool.at_work()), (3, 2, 2));
        assert_eq!((pool.claim(1, false), pool.take_peak(true)), (Some(0), 3));
    }

    #[test]
    fn the_peak_of_the_warm_up_is_none_of_the_load() {
        let pool = Pool::new(1, 3, 3);
        (0..3).for_each(|_| pool.join(0));
        (0..3).for_each(|_| assert_eq!(pool.claim(0, true), Some(0)));
        assert_eq!(pool.take_peak(false), 0);
        (0..2).for_each(|_| pool.release(0));
        // One is still at work when the first of the load comes.
        assert_eq!(pool.claim(0, false), Some(0));
        assert_eq!((pool.take_peak(true), pool.at_work()), (2, 2));
    }

    #[test]
    fn another_user_comes_in_the_place_of_one_that_is_gone() {
        let pool = Pool::new(1, 2, 2);
        (0..2).for_each(|_| pool.join(0));
        assert_eq!((pool.claim(0, false), pool.claim(0, false), pool.grow()), (Some(0), Some(0), None));
        pool.lose(0);
        assert_eq!((pool.at_work(), pool.claim(0, false)), (1, None));
        assert_eq!((pool.grow(), pool.grow()), (Some(0), None));
        pool.grown(0, false);
        assert_eq!(pool.grow(), Some(0), "its place is still vacant");
        pool.join(0);
        pool.grown(0, true);
        assert_eq!((pool.grow(), pool.claim(0, false), pool.at_work()), (None, Some(0), 2));
    }

    #[test]
    fn one_further_user_at_a_time_is_asked_for_up_to_the_most() {
        let pool = Pool::new(1, 1, 2);
        pool.join(0);
        assert_eq!((pool.grow(), pool.grow()), (Some(1), None));
        pool.grown(1, false);
        assert_eq!(pool.grow(), Some(1), "the first did not come");
        pool.join(0);
        pool.grown(1, true);
        assert_eq!(pool.grow(), None);
    }

    #[test]
    fn after_three_setups_in_a_row_that_failed_no_further_user_is_asked_for() {
        let pool = Pool::new(1, 0, 9);
        for is_there in [false, false, true, false, false, false] {
            let vu = pool.grow().unwrap();
            pool.grown(vu, is_there);
        }
        assert_eq!(pool.grow(), None);
    }

    #[test]
    fn what_was_dropped_is_told_once_by_cause_and_apart_for_the_warm_up() {
        let pool = Pool::new(1, 1, 1);
        pool.drop_arrival(DropCause::Generator, false);
        pool.drop_arrival(DropCause::Generator, false);
        pool.drop_arrival(DropCause::Pool, true);
        let taken = |warm_up| pool.take_dropped(warm_up).collect::<Vec<_>>();
        assert_eq!(taken(true), [(DropCause::Pool, 1), (DropCause::Generator, 0)]);
        assert_eq!(taken(false), [(DropCause::Pool, 0), (DropCause::Generator, 2)]);
        assert_eq!(taken(false), [(DropCause::Pool, 0), (DropCause::Generator, 0)]);
    }
}
