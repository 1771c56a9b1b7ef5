//! A worker's own statistics: written without locks by the users on its thread, taken away once a second.

mod checks;
mod end;
mod iterations;
mod metrics;
mod origin;
mod recording;
mod requests;
mod steps;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use self::end::{RequestEnd, WorkEnd};
pub(crate) use self::origin::Origin;
pub(crate) use self::recording::Recording;
pub(crate) use self::requests::Taken;
use self::steps::Step;
pub(crate) use self::steps::StepId;
use crate::model::custom::MetricKind;
use crate::model::stats::{ScenarioStats, StepKind};
use crate::model::tags::Tags;

/// The row of all further names.
const OTHER: &str = "(other)";

#[derive(Debug)]
struct ScenarioShard {
    stats: ScenarioStats,
    steps: Vec<Step>,
    /// By method, of which there are few.
    requests: Vec<(http::Method, HashMap<String, StepId>)>,
    named: HashMap<(StepKind, String), StepId>,
    checks: HashSet<String>,
    metrics: HashMap<String, MetricKind>,
    recording: Arc<Recording>,
    users: u32,
    /// How many were at work when the load's time was up.
    users_at_end: Option<u32>,
    /// Until when the users' time is in `stats.vu_ns`.
    counted_until: Instant,
}

/// The statistics of one worker thread since the last [`take`](Self::take).
#[derive(Debug)]
pub(crate) struct Shard {
    scenarios: Vec<ScenarioShard>,
}

impl Shard {
    /// With a slot for each recording.
    pub(crate) fn new(recordings: impl Iterator<Item = Arc<Recording>>, now: Instant) -> Self {
        let empty = |recording| ScenarioShard {
            stats: ScenarioStats::default(),
            steps: Vec::new(),
            requests: Vec::new(),
            named: HashMap::new(),
            checks: HashSet::new(),
            metrics: HashMap::new(),
            recording,
            users: 0,
            users_at_end: None,
            counted_until: now,
        };
        Self { scenarios: recordings.map(empty).collect() }
    }

    /// The tags of a sample: the scenario's, under the user's, under its own.
    pub(crate) fn tags(&self, slot: usize, origin: Origin<'_>) -> Tags {
        self.scenarios[slot].recording.tags.with(origin.user).with(origin.own)
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

    /// The load's time is up: whoever is at work now counts as such, however soon the end of the interval finds nobody.
    pub(crate) fn note_users(&mut self, slot: usize) {
        let scenario = &mut self.scenarios[slot];
        scenario.users_at_end = Some(scenario.users);
    }

    /// Everything since the last time, by scenario slot; counting starts anew.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<ScenarioStats> {
        self.scenarios.iter_mut().map(|scenario| scenario.take(now)).collect()
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
        taken.vus = self.users_at_end.take().unwrap_or(self.users);
        taken.vus_max = taken.vus_max.max(self.users);
        for step in self.steps.iter_mut().filter(|step| step.touched) {
            step.touched = false;
            step.stats.rank = step.rank;
            taken.steps.insert(step.key.clone(), mem::take(&mut step.stats));
        }
        taken
    }
}

#[cfg(test)]
mod tests;
