//! A worker's own statistics: written without locks by the users on its thread, taken away once a second.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::stats::{ScenarioStats, StepKey, StepKind, StepStats};

/// Distinct steps of one scenario that get rows of their own, and distinct checks; further names are counted together.
const MOST_NAMES: usize = 500;
/// The row of all further names.
const OTHER: &str = "(other)";

/// Which row of a scenario a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepId(usize);

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    Response {
        status: u16,
        expected: bool,
        bytes_received: u64,
    },
    /// No whole response: the class of the error. After a timeout the duration is a lower bound.
    Error {
        class: &'static str,
        timed_out: bool,
    },
    /// Cut off by the end of the run.
    Interrupted,
}

/// How an iteration, or a timed step, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    Done,
    Failed(String),
    Panicked(String),
    Interrupted,
}

#[derive(Debug)]
struct Step {
    key: StepKey,
    /// The key's name, to be shared with spans.
    name: Arc<str>,
    stats: StepStats,
    touched: bool,
}

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

    /// The row `METHOD template`, and its name.
    pub(crate) fn request_step(
        &mut self,
        slot: usize,
        method: &http::Method,
        template: &str,
    ) -> (StepId, Arc<str>) {
        let known = self.scenarios[slot].requests.get(method).and_then(|steps| steps.get(template)).copied();
        let id = known.unwrap_or_else(|| {
            let (id, _) = self.step(slot, StepKind::Request, &format!("{method} {template}"));
            // Names beyond the limit are not remembered: they may be without number.
            if self.scenarios[slot].steps[id.0].key.name != OTHER {
                self.scenarios[slot]
                    .requests
                    .entry(method.clone())
                    .or_default()
                    .insert(template.to_owned(), id);
            }
            id
        });
        (id, self.scenarios[slot].steps[id.0].name.clone())
    }

    /// The row `name`, and its name: `(other)` when there are too many.
    pub(crate) fn step(&mut self, slot: usize, kind: StepKind, name: &str) -> (StepId, Arc<str>) {
        let scenario = &mut self.scenarios[slot];
        let key = (kind, name.to_owned());
        if let Some(id) = scenario.named.get(&key) {
            return (*id, scenario.steps[id.0].name.clone());
        }
        if scenario.steps.len() >= MOST_NAMES && name != OTHER {
            self.overflowed.get_or_insert_with(|| format!("the step `{name}`"));
            return self.step(slot, kind, OTHER);
        }
        let id = StepId(scenario.steps.len());
        let shared: Arc<str> = name.into();
        let key_name = name.to_owned();
        scenario.steps.push(Step {
            key: StepKey { kind, name: key_name },
            name: shared.clone(),
            stats: StepStats::default(),
            touched: false,
        });
        scenario.named.insert(key, id);
        (id, shared)
    }

    fn stats(&mut self, slot: usize, id: StepId) -> &mut StepStats {
        let step = &mut self.scenarios[slot].steps[id.0];
        step.touched = true;
        &mut step.stats
    }

    pub(crate) fn request(
        &mut self,
        slot: usize,
        id: StepId,
        end: &RequestEnd,
        took: Duration,
        bytes_sent: u64,
    ) {
        let stats = self.stats(slot, id);
        stats.bytes_sent += bytes_sent;
        match end {
            RequestEnd::Response { status, expected, bytes_received } => {
                stats.count += 1;
                stats.bytes_received += bytes_received;
                *stats.status.entry(*status).or_default() += 1;
                stats.rate_limited += u64::from(*status == 429);
                if *expected {
                    stats.latency.record(took);
                } else {
                    stats.failed += 1;
                    stats.errors += u64::from(*status != 429);
                }
            }
            RequestEnd::Error { class, timed_out } => {
                stats.count += 1;
                stats.errors += 1;
                stats.failed += 1;
                if let Some(count) = stats.error_types.get_mut(*class) {
                    *count += 1;
                } else {
                    stats.error_types.insert((*class).to_owned(), 1);
                }
                if *timed_out {
                    stats.latency.record_censored(took);
                }
            }
            RequestEnd::Interrupted => {
                stats.interrupted += 1;
                stats.latency.record_censored(took);
            }
        }
    }

    /// A timed step: like a request, it has a latency only when it ended well.
    pub(crate) fn work(&mut self, slot: usize, id: StepId, end: &WorkEnd, took: Duration) {
        let stats = self.stats(slot, id);
        match end {
            WorkEnd::Done => {
                stats.count += 1;
                stats.latency.record(took);
            }
            WorkEnd::Failed(_) | WorkEnd::Panicked(_) => {
                stats.count += 1;
                stats.errors += 1;
                stats.failed += 1;
            }
            WorkEnd::Interrupted => {
                stats.interrupted += 1;
                stats.latency.record_censored(took);
            }
        }
    }

    pub(crate) fn iteration(&mut self, slot: usize, end: &WorkEnd, took: Duration) {
        let stats = &mut self.scenarios[slot].stats;
        match end {
            WorkEnd::Interrupted => {
                stats.interrupted_iterations += 1;
                stats.interrupted_ns += took.as_nanos() as u64;
                stats.iteration.record_censored(took);
                return;
            }
            WorkEnd::Done => {}
            WorkEnd::Failed(message) => {
                stats.failed_iterations += 1;
                stats.errors.add(message, 1);
            }
            WorkEnd::Panicked(message) => {
                stats.failed_iterations += 1;
                stats.panics += 1;
                stats.errors.add(message, 1);
            }
        }
        stats.iterations += 1;
        stats.iteration.record(took);
    }

    pub(crate) fn seen_for_tracing(&mut self, slot: usize, traced: bool) {
        let stats = &mut self.scenarios[slot].stats;
        stats.iterations_seen += 1;
        stats.iterations_traced += u64::from(traced);
    }

    pub(crate) fn check(&mut self, slot: usize, name: &str, passed: bool) {
        let scenario = &mut self.scenarios[slot];
        if let Some(check) = scenario.stats.checks.get_mut(name) {
            check.add(passed);
            return;
        }
        let mut row = name;
        if !scenario.checks.contains(name) {
            if scenario.checks.len() < MOST_NAMES {
                scenario.checks.insert(name.to_owned());
            } else {
                self.overflowed.get_or_insert_with(|| format!("the check `{name}`"));
                row = OTHER;
            }
        }
        scenario.stats.checks.entry(row.to_owned()).or_default().add(passed);
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
    use super::*;
    use crate::model::stats::CheckStats;

    const MS: Duration = Duration::from_millis(1);

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
            (RequestEnd::Interrupted, 0, 0, 0, 0, 0, 1),
        ] {
            let (mut shard, now) = shard();
            let (id, name) = shard.request_step(0, &http::Method::GET, "/a/{id}");
            assert_eq!(&*name, "GET /a/{id}");
            shard.request(0, id, &end, MS, 3);
            let stats = shard.take(now).remove(0).requests();
            assert_eq!(
                (stats.count, stats.errors, stats.rate_limited, stats.failed),
                (count, errors, limited, failed)
            );
            let latency = &stats.latency;
            assert_eq!((latency.complete_count(), latency.censored_count()), (complete, censored), "{end:?}");
            assert_eq!(stats.bytes_sent, 3);
        }
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
            shard.request(0, id, &RequestEnd::Interrupted, MS, 0);
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
