//! Trace context of one scenario's iterations on one worker thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use super::buffer::{SpanBuffer, SpanSink};
use super::sampling::{Sampler, Weight};
use super::span::{IterationFacts, SpanRecord};
use crate::model::id::{SpanId, TraceId, TracePrefix};
use crate::model::plan::TracePolicy;
use crate::model::stats::Phase;

/// What tracing needs, whatever the scenario.
#[derive(Debug, Clone)]
pub(crate) struct TracerParts {
    pub(crate) policy: TracePolicy,
    pub(crate) prefix: TracePrefix,
    pub(crate) sink: SpanSink,
    /// The span of the run, which every iteration is linked to.
    pub(crate) run_span: (TraceId, SpanId),
}

/// Decides about tracing, makes ids, and takes finished spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    parts: TracerParts,
    phase: Phase,
    spans: Arc<SpanBuffer>,
    sampler: RefCell<Sampler>,
}

/// The trace of one iteration, traced or not: without a trace there is no `traceparent`.
#[derive(Debug, Clone)]
pub(crate) struct IterationTrace {
    pub(crate) trace: TraceId,
    pub(crate) root: SpanId,
    /// `None`: the iteration is not traced; its `traceparent` says so.
    pub(crate) facts: Option<IterationFacts>,
}

impl Tracer {
    /// `None` when the policy is to trace nothing. `shares` tracers share the budget.
    pub(crate) fn new(
        parts: TracerParts,
        phase: Phase,
        scenario: &str,
        shares: usize,
        now: Instant,
    ) -> Option<Self> {
        // The reference phase is short and alone: all of it is traced.
        let policy = match (phase, parts.policy) {
            (Phase::Reference, TracePolicy::Rate(_) | TracePolicy::Ratio(_)) => TracePolicy::All,
            (_, policy) => policy,
        };
        let sampler = RefCell::new(Sampler::new(policy, shares, now)?);
        let spans = parts.sink.buffer(scenario);
        Some(Self { parts, phase, spans, sampler })
    }

    /// The trace of an iteration that starts now, in a part of the phase that is told apart where there is one.
    pub(crate) fn begin(&self, vu: u64, iteration: u64, now: Instant, part: Option<Phase>) -> IterationTrace {
        let trace = self.parts.prefix.trace(nonzero());
        let facts =
            self.sampler.borrow_mut().decide(now, fastrand::f64()).map(|Weight(weight)| IterationFacts {
                trace,
                scenario: self.spans.scenario().clone(),
                phase: part.unwrap_or(self.phase),
                weight,
                vu,
                iteration,
            });
        IterationTrace { trace, root: new_span_id(), facts }
    }

    pub(crate) fn run_span(&self) -> (TraceId, SpanId) {
        self.parts.run_span
    }

    pub(crate) fn finished(&self, span: &SpanRecord) {
        self.spans.push(span);
    }
}

/// A random span id.
pub(crate) fn new_span_id() -> SpanId {
    SpanId(nonzero())
}

fn nonzero() -> u64 {
    fastrand::u64(1..)
}

/// The W3C `traceparent` header: 55 bytes. Every request has one, so it is written without the formatting machinery.
pub(crate) fn traceparent(trace: TraceId, parent: SpanId, sampled: bool) -> String {
    let mut header = String::with_capacity(55);
    header.push_str("00-");
    push_hexadecimal(&mut header, &trace.0.to_be_bytes());
    header.push('-');
    push_hexadecimal(&mut header, &parent.0.to_be_bytes());
    header.push_str(if sampled { "-01" } else { "-00" });
    header
}

fn push_hexadecimal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_55_bytes_of_the_w3c_form() {
        let header = traceparent(TraceId(0xab), SpanId(0xcd), true);
        assert_eq!(header, "00-000000000000000000000000000000ab-00000000000000cd-01");
        assert_eq!(header.len(), 55);
        assert!(traceparent(TraceId(1), SpanId(1), false).ends_with("-00"));
    }
}
