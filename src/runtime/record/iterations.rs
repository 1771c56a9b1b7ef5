//! Samples of iterations.

use std::time::Duration;

use super::origin::{Origin, Sample, What};
use super::requests::matching;
use super::{ScenarioShard, Shard, WorkEnd};
use crate::model::flow::FlowStats;
use crate::model::stats::{DropCause, ScenarioStats, Series};

impl Shard {
    pub(crate) fn iteration(&mut self, slot: usize, end: &WorkEnd, took: Duration, origin: Origin<'_>) {
        let ScenarioShard { stats, recording, .. } = &mut self.scenarios[slot];
        count(stats, end, took);
        let sample = Sample { origin, tags: &recording.tags, what: What::Plain };
        for number in matching(&recording.iterations, &sample) {
            if let Series::Iterations(stats) = stats.tagged.entry(number).or_insert_with(Series::iterations) {
                count(stats, end, took);
            }
        }
    }

    /// The same iteration once more, under the name of the flow of a mix that it was.
    pub(crate) fn flow(&mut self, slot: usize, name: &str, end: &WorkEnd) {
        let flows = &mut self.scenarios[slot].stats.flows;
        if !flows.contains_key(name) {
            flows.insert(name.to_owned(), FlowStats::default());
        }
        let Some(stats) = flows.get_mut(name) else { return };
        match end {
            WorkEnd::Interrupted => stats.interrupted_iterations += 1,
            WorkEnd::Done => stats.iterations += 1,
            WorkEnd::Failed(_) | WorkEnd::Panicked(_) => {
                stats.iterations += 1;
                stats.failed_iterations += 1;
            }
        }
    }

    /// How long after it was due an iteration of an open model began.
    pub(crate) fn lag(&mut self, slot: usize, lag: Duration) {
        self.scenarios[slot].stats.lag.record(lag);
    }

    /// How long after it was due an iteration of an open model ended.
    pub(crate) fn response(&mut self, slot: usize, end: &WorkEnd, after: Duration) {
        let response = &mut self.scenarios[slot].stats.response;
        match end {
            WorkEnd::Interrupted => response.record_censored(after),
            WorkEnd::Done | WorkEnd::Failed(_) | WorkEnd::Panicked(_) => response.record(after),
        }
    }

    /// An arrival that a user was to take became no iteration after all.
    pub(crate) fn arrival_dropped(&mut self, slot: usize, cause: DropCause) {
        self.scenarios[slot].stats.drop_arrivals(cause, 1);
    }

    pub(crate) fn seen_for_tracing(&mut self, slot: usize, traced: bool) {
        let stats = &mut self.scenarios[slot].stats;
        stats.iterations_seen += 1;
        stats.iterations_traced += u64::from(traced);
    }
}

fn count(stats: &mut ScenarioStats, end: &WorkEnd, took: Duration) {
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
