//! What the workers have handed over since the last interval was told.

use std::collections::BTreeMap;

use crate::model::stats::ScenarioStats;

/// By slot, of its load and of its warm-up.
pub(super) struct Gathered {
    rows: Vec<[ScenarioStats; 2]>,
    /// Users at work, by worker, as last reported.
    users: BTreeMap<usize, Vec<u32>>,
    /// The most users in iterations of the load, by worker, since the last interval.
    peaks: BTreeMap<usize, Vec<u32>>,
}

impl Gathered {
    pub(super) fn new(slots: usize) -> Self {
        let rows = (0..slots).map(|_| <[ScenarioStats; 2]>::default()).collect();
        Self { rows, users: BTreeMap::new(), peaks: BTreeMap::new() }
    }

    /// Takes in what `worker` hands over: by slot, then by slot for the warm-up.
    pub(super) fn add(&mut self, worker: usize, stats: &[ScenarioStats]) {
        let slots = self.rows.len();
        let users = self.users.entry(worker).or_default();
        let peaks = self.peaks.entry(worker).or_default();
        for of_worker in [&mut *users, &mut *peaks] {
            of_worker.resize(slots, 0);
        }
        users.fill(0);
        for (row, stats) in stats.iter().enumerate() {
            let (slot, is_warm_up) = (row % slots, row >= slots);
            users[slot] += stats.vus;
            if !is_warm_up {
                peaks[slot] = peaks[slot].max(stats.vus_max);
            }
            self.rows[slot][usize::from(is_warm_up)].merge(stats);
        }
    }

    /// The figures of the slot's load, with its users, and of its warm-up; counting starts anew.
    pub(super) fn take(&mut self, slot: usize) -> [ScenarioStats; 2] {
        let [mut load, warm_up] = std::mem::take(&mut self.rows[slot]);
        load.vus = self.users.values().map(|users| users[slot]).sum();
        load.vus_max = self.peaks.values_mut().map(|peaks| std::mem::take(&mut peaks[slot])).sum();
        [load, warm_up]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one slot: users and peak of its load and of its warm-up, and iterations of both.
    fn handed_over(load: (u32, u32), warm_up: (u32, u32), iterations: [u64; 2]) -> Vec<ScenarioStats> {
        let of =
            |((vus, vus_max), iterations)| ScenarioStats { iterations, vus, vus_max, ..Default::default() };
        [load, warm_up].into_iter().zip(iterations).map(of).collect()
    }

    #[test]
    fn workers_add_up_one_that_is_silent_keeps_its_users_and_a_warm_up_is_apart() {
        let mut gathered = Gathered::new(1);
        gathered.add(0, &handed_over((2, 3), (1, 7), [10, 1]));
        gathered.add(1, &handed_over((4, 4), (0, 9), [20, 2]));
        let mut taken = || {
            let [load, warm_up] = gathered.take(0);
            (load.vus, load.vus_max, load.iterations, warm_up.iterations)
        };
        assert_eq!(taken(), (7, 7, 30, 3));
        assert_eq!(taken(), (7, 0, 0, 0));
        gathered.add(0, &handed_over((1, 2), (0, 0), [5, 0]));
        // The other one hands over twice, late.
        gathered.add(1, &handed_over((0, 4), (0, 0), [6, 0]));
        gathered.add(1, &handed_over((0, 0), (0, 0), [7, 0]));
        let [load, _] = gathered.take(0);
        assert_eq!((load.vus, load.vus_max, load.iterations), (1, 6, 18));
    }
}
