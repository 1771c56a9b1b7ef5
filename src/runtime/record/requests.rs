//! Samples of requests and of timed steps.

use std::time::Duration;

use super::{RequestEnd, Shard, StepId, WorkEnd};

impl Shard {
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
}
