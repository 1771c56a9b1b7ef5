//! A worker's own statistics: written without locks by the users on its thread, taken away once a second.

mod checks;
mod end;
mod iterations;
mod requests;
mod steps;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Instant;

pub(crate) use self::end::{RequestEnd, WorkEnd};
pub(crate) use self::requests::Taken;
use self::steps::Step;
pub(crate) use self::steps::StepId;
use crate::model::stats::{ScenarioStats, StepKind};

/// Distinct steps of one scenario that get rows of their own, and distinct checks; further names are counted together.
const MOST_NAMES: usize = 500;
/// The row of all further names.
const OTHER: &str = "(other)";

#[derive(Debug)]
struct ScenarioShard {
    stats: ScenarioStats,
    steps: Vec<Step>,
    requests: HashMap<http::Method, HashMap<String, StepId>>,
    named: HashMap<(StepKind, String), StepId>,
    checks: HashSet<String>,
    users: u32,
    /// Until when the users' time is in `stats.vu_ns`.
    counted_until: Instant,
}

/// The statistics of one worker thread since the last [`take`](Self::take).
#[derive(Debug)]
pub(crate) struct Shard {
    scenarios: Vec<ScenarioShard>,
    /// What first found no row of its own.
    overflowed: Option<String>,
}

impl Shard {
    pub(crate) fn new(scenarios: usize, now: Instant) -> Self {
        let empty = || ScenarioShard {
            stats: ScenarioStats::default(),
            steps: Vec::new(),
            requests: HashMap::new(),
            named: HashMap::new(),
            checks: HashSet::new(),
            users: 0,
            counted_until: now,
        };
        Self { scenarios: (0..scenarios).map(|_| empty()).collect(), overflowed: None }
    }

    pub(crate) fn user_started(&mut self, slot: usize, now: Instant) {
        let scenario = &mut self.scenarios[slot];
        scenario.count_user_time(now);
        scenario.users += 1;
        scenario.stats.vus_max = scenario.stats.vus_max.max(scenario.users);
    }

    pub(crate) fn user_ended(&mut self, slot: usize, now: Instant) {
        let scenario = &mut self.scenarios[slot];
        scenario.count_user_time(now);
        scenario.users -= 1;
    }

    /// Everything since the last time, by scenario slot; counting starts anew.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<ScenarioStats> {
        self.scenarios.iter_mut().map(|scenario| scenario.take(now)).collect()
    }

    /// The first step or check that found no row of its own, once.
    pub(crate) fn take_overflow(&mut self) -> Option<String> {
        self.overflowed.take()
    }
}

impl ScenarioShard {
    fn count_user_time(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.counted_until);
        self.stats.vu_ns += since.as_nanos() as u64 * u64::from(self.users);
        self.counted_until = now;
    }

    fn take(&mut self, now: Instant) -> ScenarioStats {
        self.count_user_time(now);
        let mut taken = mem::take(&mut self.stats);
        taken.vus = self.users;
        taken.vus_max = taken.vus_max.max(self.users);
        for (rank, step) in self.steps.iter_mut().enumerate().filter(|(_, step)| step.touched) {
            step.touched = false;
            step.stats.rank = rank as u32;
            taken.steps.insert(step.key.clone(), mem::take(&mut step.stats));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::phases::{HttpPhase, PhaseTimes};
    use crate::model::stats::{CheckStats, StepKey};

    const MS: Duration = Duration::from_millis(1);

    fn taken() -> Taken {
        let mut phases = PhaseTimes::default();
        phases.set(HttpPhase::Connecting, 2 * MS);
        phases.set(HttpPhase::Waiting, 5 * MS);
        Taken { total: 7 * MS, phases, retries: 2, bytes_sent: 3 }
    }

    fn shard() -> (Shard, Instant) {
        let now = crate::sys::clock::now();
        (Shard::new(1, now), now)
    }

    #[test]
    fn a_request_counts_in_the_columns_that_its_end_belongs_to() {
        let response = |status, expected| RequestEnd::Response { status, expected, bytes_received: 7 };
        for (end, count, errors, limited, failed, complete, censored) in [
            (response(200, true), 1, 0, 0, 0, 1, 0),
            (response(404, false), 1, 1, 0, 1, 0, 0),
            (response(404, true), 1, 0, 0, 0, 1, 0),
            (response(429, false), 1, 0, 1, 1, 0, 0),
            (response(503, false), 1, 1, 0, 1, 0, 0),
            (RequestEnd::Error { class: "reset", timed_out: false }, 1, 1, 0, 1, 0, 0),
            (RequestEnd::Error { class: "timeout", timed_out: true }, 1, 1, 0, 1, 0, 1),
            (RequestEnd::Error { class: "generator_descriptors", timed_out: false }, 0, 0, 0, 0, 0, 0),
            (RequestEnd::Interrupted, 0, 0, 0, 0, 0, 1),
        ] {
            let (mut shard, now) = shard();
            let (id, name) = shard.request_step(0, &http::Method::GET, "/a/{id}");
            assert_eq!(&*name, "GET /a/{id}");
            shard.request(0, id, &end, &taken());
            let stats = shard.take(now).remove(0).requests();
            assert_eq!(
                (stats.count, stats.errors, stats.rate_limited, stats.failed),
                (count, errors, limited, failed)
            );
            for latency in [&stats.latency, &stats.duration] {
                let counts = (latency.complete_count(), latency.censored_count());
                assert_eq!(counts, (complete, censored), "{end:?}");
            }
            let own = stats.error_types.contains_key("generator_descriptors");
            assert_eq!(stats.generator_errors, u64::from(own));
            assert_eq!((stats.bytes_sent, stats.retries), if own { (0, 0) } else { (3, 2) });
        }
    }

    #[test]
    fn a_duration_is_without_what_was_before_the_first_byte() {
        let (mut shard, now) = shard();
        let (id, _) = shard.request_step(0, &http::Method::GET, "/");
        let end = RequestEnd::Response { status: 200, expected: true, bytes_received: 0 };
        shard.request(0, id, &end, &taken());
        let stats = shard.take(now).remove(0).requests();
        assert_eq!(stats.latency.mean_nanos(), Some(7e6));
        assert_eq!(stats.duration.mean_nanos(), Some(5e6));
        assert_eq!(stats.phases.of(HttpPhase::Connecting, 1).mean_nanos(), Some(2e6));
        assert_eq!(stats.phases.of(HttpPhase::Waiting, 1).mean_nanos(), Some(5e6));
    }

    #[test]
    fn what_is_taken_is_gone_and_users_stay() {
        let (mut shard, start) = shard();
        shard.user_started(0, start);
        shard.iteration(0, &WorkEnd::Panicked("boom".into()), MS);
        shard.check(0, "ok", false);
        let taken = shard.take(start + 2 * MS).remove(0);
        assert_eq!((taken.iterations, taken.failed_iterations, taken.panics, taken.vus), (1, 1, 1, 1));
        assert_eq!(taken.errors.commonest(), Some("boom"));
        assert_eq!(taken.checks["ok"].fails, 1);
        assert_eq!(taken.vu_ns, 2_000_000);
        shard.user_ended(0, start + 5 * MS);
        let taken = shard.take(start + 9 * MS).remove(0);
        assert_eq!((taken.iterations, taken.vus, taken.vus_max, taken.vu_ns), (0, 0, 0, 3_000_000));
    }

    #[test]
    fn names_beyond_the_limit_share_a_row_and_the_first_is_named() {
        let (mut shard, now) = shard();
        for n in 0..MOST_NAMES + 10 {
            let (id, _) = shard.request_step(0, &http::Method::GET, &format!("/{n}"));
            shard.request(0, id, &RequestEnd::Interrupted, &Taken::default());
        }
        let taken = shard.take(now).remove(0);
        assert_eq!(taken.steps.len(), MOST_NAMES + 1);
        let other = StepKey { kind: StepKind::Request, name: OTHER.into() };
        assert_eq!(taken.steps[&other].interrupted, 10);
        assert_eq!(shard.take_overflow().as_deref(), Some("the step `GET /500`"));
    }

    #[test]
    fn checks_beyond_the_limit_are_counted_together_in_every_interval() {
        let (mut shard, now) = shard();
        for _ in 0..2 {
            for n in 0..MOST_NAMES + 10 {
                shard.check(0, &format!("check {n}"), n != MOST_NAMES);
            }
            let taken = shard.take(now).remove(0);
            assert_eq!(taken.checks.len(), MOST_NAMES + 1);
            assert_eq!(taken.checks[OTHER], CheckStats { passes: 9, fails: 1 });
            assert_eq!(taken.checks["check 499"], CheckStats { passes: 1, fails: 0 });
            assert_eq!(shard.take_overflow().as_deref(), Some("the check `check 500`"));
        }
    }
}
