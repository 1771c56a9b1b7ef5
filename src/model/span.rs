//! A span as the analysis sees it, whoever sent it and in whichever encoding.

use std::sync::Arc;

use super::id::{SpanId, TraceId};
use super::stats::{Phase, StepKind};

/// OpenTelemetry's span kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SpanKind {
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) service: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) kind: SpanKind,
    /// Wall clock of the sender, nanoseconds since the Unix epoch. May lie after `end_ns`: clocks are the sender's.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) error: bool,
    /// Set on the spans that the scenario process made; shared, as most of them say the same.
    pub(crate) load: Option<Arc<LoadSpan>>,
}

/// What the scenario process says of its own spans, in `loadtest.*` attributes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadSpan {
    pub(crate) role: LoadRole,
    pub(crate) scenario: Arc<str>,
    pub(crate) phase: Phase,
    /// One over the probability with which the iteration was chosen for tracing. 0: traced for show, without weight
    /// in statistics.
    pub(crate) weight: f64,
    /// The response was one that counts in the latency figures.
    pub(crate) expected: bool,
}

/// Which of the scenario process's own spans a span is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoadRole {
    /// The root of a trace.
    Iteration,
    /// A request or a step; the row it belongs to is (kind, name).
    Step { kind: StepKind, name: Arc<str> },
    /// A span of the scenario author's own code.
    Author,
}
