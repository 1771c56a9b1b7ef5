//! Samples of requests and of timed steps.

use std::time::Duration;

use super::origin::{Origin, Sample, What};
use super::recording::Selectors;
use super::{RequestEnd, Shard, StepId, WorkEnd};
use crate::model::http::is_generators_own;
use crate::model::phases::PhaseTimes;
use crate::model::stats::{Series, StepStats};
use crate::model::tags::{BuiltIn, Selector};

/// What a request took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) total: Duration,
    pub(crate) phases: PhaseTimes,
    pub(crate) retries: u32,
    pub(crate) bytes_sent: u64,
}

impl Shard {
    pub(crate) fn request(
        &mut self,
        slot: usize,
        id: StepId,
        method: &http::Method,
        end: &RequestEnd,
        taken: &Taken,
        origin: Origin<'_>,
    ) {
        let scenario = &mut self.scenarios[slot];
        let step = &mut scenario.steps[id.0];
        step.touched = true;
        count_request(&mut step.stats, end, taken, false);
        if scenario.recording.requests.is_empty() {
            return;
        }
        let what = What::Request { step: &step.key.name, method, end };
        let sample = Sample { origin, tags: &scenario.recording.tags, what };
        for (number, selector) in &scenario.recording.requests {
            let is_whole = selector.matches(&sample);
            // What was cut off might have become the expected response, after a longer time.
            let might_be = || {
                is_cut_off(end)
                    && selector.value(BuiltIn::ExpectedResponse) == Some("true")
                    && selector.matches_apart_from(Some(BuiltIn::ExpectedResponse), &sample)
            };
            if !is_whole && !might_be() {
                continue;
            }
            let series = scenario.stats.tagged.entry(*number).or_insert_with(Series::work);
            match series {
                Series::Work(stats) if is_whole => {
                    count_request(stats, end, taken, names_an_end(selector));
                }
                Series::Work(stats) => stats.cut_off(taken.total, &taken.phases),
                _ => {}
            }
        }
    }

    /// A timed step: like a request, it has a latency only when it ended well.
    pub(crate) fn work(
        &mut self,
        slot: usize,
        id: StepId,
        end: &WorkEnd,
        took: Duration,
        origin: Origin<'_>,
    ) {
        let scenario = &mut self.scenarios[slot];
        let step = &mut scenario.steps[id.0];
        step.touched = true;
        count_work(&mut step.stats, end, took);
        let sample =
            Sample { origin, tags: &scenario.recording.tags, what: What::Step { step: &step.key.name } };
        for number in matching(&scenario.recording.steps, &sample) {
            if let Series::Work(stats) = scenario.stats.tagged.entry(number).or_insert_with(Series::work) {
                count_work(stats, end, took);
            }
        }
    }
}

/// The numbers of the series that the sample belongs to.
pub(super) fn matching(selectors: &Selectors, sample: &Sample<'_>) -> impl Iterator<Item = u32> {
    selectors.iter().filter(|(_, selector)| selector.matches(sample)).map(|(number, _)| *number)
}

/// Whoever asks for a way to end asks for the durations of what ended so, expected or not.
fn names_an_end(selector: &Selector) -> bool {
    [BuiltIn::Status, BuiltIn::ExpectedResponse, BuiltIn::ErrorType]
        .iter()
        .any(|tag| selector.value(*tag).is_some())
}

fn is_cut_off(end: &RequestEnd) -> bool {
    matches!(end, RequestEnd::Interrupted | RequestEnd::Error { timed_out: true, .. })
}

/// `all`: the durations of responses that were not expected, and of errors, are recorded, too.
fn count_request(stats: &mut StepStats, end: &RequestEnd, taken: &Taken, all: bool) {
    if let RequestEnd::Error { class, .. } = end
        && is_generators_own(class)
    {
        stats.generator_errors += 1;
        count_class(stats, class);
        return;
    }
    stats.bytes_sent += taken.bytes_sent;
    stats.retries += u64::from(taken.retries);
    match end {
        RequestEnd::Response { status, expected, bytes_received } => {
            stats.count += 1;
            stats.bytes_received += bytes_received;
            *stats.status.entry(*status).or_default() += 1;
            stats.rate_limited += u64::from(*status == 429);
            if *expected || all {
                stats.respond(taken.total, &taken.phases);
            }
            if !*expected {
                stats.failed += 1;
                stats.errors += u64::from(*status != 429);
            }
        }
        RequestEnd::Error { class, timed_out } => {
            stats.count += 1;
            stats.errors += 1;
            stats.failed += 1;
            count_class(stats, class);
            if *timed_out {
                stats.cut_off(taken.total, &taken.phases);
            } else if all {
                stats.respond(taken.total, &taken.phases);
            }
        }
        RequestEnd::Interrupted => {
            stats.interrupted += 1;
            stats.cut_off(taken.total, &taken.phases);
        }
    }
}

fn count_class(stats: &mut StepStats, class: &str) {
    if let Some(count) = stats.error_types.get_mut(class) {
        *count += 1;
    } else {
        stats.error_types.insert(class.to_owned(), 1);
    }
}

fn count_work(stats: &mut StepStats, end: &WorkEnd, took: Duration) {
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
