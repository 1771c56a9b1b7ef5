//! What is known of a span of the load when it has ended.

use std::sync::Arc;

use crate::model::id::{SpanId, TraceId};
use crate::model::phases::PhaseTimes;
use crate::model::stats::Phase;
use crate::model::tags::Tags;

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

/// A finished span of the load.
#[derive(Debug)]
pub(crate) struct SpanRecord {
    pub(crate) iteration: IterationFacts,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) what: What,
    /// The author's.
    pub(crate) tags: Tags,
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
    pub(crate) phases: PhaseTimes,
    /// How often it was sent again.
    pub(crate) retries: u32,
}
