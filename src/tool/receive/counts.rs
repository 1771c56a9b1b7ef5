//! What the receiver counts of what passes through it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows. It orders nothing.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: Counter,
    pub(super) refused: Counter,
    pub(super) malformed: Counter,
    pub(super) spans_foreign: Counter,
    pub(super) spans_malformed: Counter,
    pub(super) forwarded: Counter,
    pub(super) forward_dropped: Counter,
    pub(super) forward_failed: Counter,
}

/// What the receiver has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceiverCounts {
    /// Requests of all signals, refused ones included.
    pub(crate) requests: u64,
    /// Requests that were answered with an error.
    pub(crate) requests_refused: u64,
    /// Those of them whose content could not be read.
    pub(crate) requests_malformed: u64,
    pub(crate) spans_kept: u64,
    /// Spans of other traces than this run's.
    pub(crate) spans_foreign: u64,
    pub(crate) spans_malformed: u64,
    /// Spans of traces that did not fit.
    pub(crate) spans_refused: u64,
    pub(crate) traces_refused: u64,
    /// Spans that came after their trace was handed over.
    pub(crate) spans_late: u64,
    /// Requests that the forwarding target took.
    pub(crate) forwarded: u64,
    /// Requests that found the forwarding queue full, or were in it at the end.
    pub(crate) forward_dropped: u64,
    /// Requests that the target refused, or did not take in time.
    pub(crate) forward_failed: u64,
}
