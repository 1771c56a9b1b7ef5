//! Samples of requests and of timed steps.

use std::time::Duration;

use super::{RequestEnd, Shard, StepId, WorkEnd};
use crate::model::http::is_generators_own;
use crate::model::phases::PhaseTimes;
use crate::model::stats::StepStats;

/// What a request took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) total: Duration,
    pub(crate) phases: PhaseTimes,
    pub(crate) retries: u32,
    pub(crate) bytes_sent: u64,
}

impl Shard {
    pub(crate) fn request(&mut self, slot: usize, id: StepId, end: &RequestEnd, taken: &Taken) {
        let stats = self.stats(slot, id);
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
                if *expected {
                    stats.respond(taken.total, &taken.phases);
                } else {
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
                }
            }
            RequestEnd::Interrupted => {
                stats.interrupted += 1;
                stats.cut_off(taken.total, &taken.phases);
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
}

fn count_class(stats: &mut StepStats, class: &str) {
    if let Some(count) = stats.error_types.get_mut(class) {
        *count += 1;
    } else {
        stats.error_types.insert(class.to_owned(), 1);
    }
}
