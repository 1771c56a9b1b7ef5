//! Finished spans of the load, and the bounded queue on which they leave the worker threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use opentelemetry_sdk::trace::SpanData;

use crate::model::id::{SpanId, TraceId};
use crate::model::stats::Phase;

/// Spans that may wait for the export thread.
const QUEUE: usize = 65_536;

/// What all spans of an iteration have in common.
#[derive(Debug, Clone)]
pub(crate) struct IterationFacts {
    pub(crate) trace: TraceId,
    pub(crate) scenario: Arc<str>,
    pub(crate) phase: Phase,
    pub(crate) weight: f64,
    pub(crate) vu: u64,
    pub(crate) iteration: u64,
}

/// A finished span of the load, cheap to make: attributes are built on the export thread.
#[derive(Debug)]
pub(crate) struct SpanRecord {
    pub(crate) iteration: IterationFacts,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Iteration { error: Option<String>, run_span: (TraceId, SpanId) },
    Step { name: Arc<str>, group: Option<Arc<str>>, error: Option<String> },
    Request(Box<RequestFacts>),
}

/// What is said of a request.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    pub(crate) name: Arc<str>,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) method: http::Method,
    pub(crate) template: Option<String>,
    /// Redirects that led here.
    pub(crate) hop: usize,
    /// With the values of its query and its user information masked.
    pub(crate) url: String,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) status: Option<u16>,
    pub(crate) version: Option<&'static str>,
    pub(crate) error_type: Option<String>,
    /// The response counts in the latency figures.
    pub(crate) expected: bool,
}

/// What travels on the queue.
#[derive(Debug)]
pub(crate) enum Item {
    Load(SpanRecord),
    /// A span that the scenario's own code made with `tracing`.
    Author(Box<SpanData>),
}

/// The near end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct SpanSink {
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

impl SpanSink {
    /// A queue, and the count of what found it full.
    pub(crate) fn new() -> (Self, Receiver<Item>, Arc<AtomicU64>) {
        let (queue, items) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { queue, dropped: dropped.clone() }, items, dropped)
    }

    /// Hands a span on; never waits. A span that finds the queue full is dropped and counted.
    pub(crate) fn push(&self, item: Item) {
        if self.queue.try_send(item).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (sink, items, dropped) = SpanSink::new();
        let facts = IterationFacts {
            trace: TraceId(1),
            scenario: "s".into(),
            phase: Phase::Load,
            weight: 1.0,
            vu: 1,
            iteration: 1,
        };
        for _ in 0..QUEUE + 3 {
            sink.push(Item::Load(SpanRecord {
                iteration: facts.clone(),
                id: SpanId(1),
                parent: None,
                start_ns: 0,
                end_ns: 0,
                what: What::Step { name: "x".into(), group: None, error: None },
            }));
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        assert_eq!(items.try_iter().count(), QUEUE);
    }
}
