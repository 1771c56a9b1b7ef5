//! One hop of a request on its way: whatever ends it, it is counted once and, in a traced iteration, has its span.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::target::masked;
use super::timings::Timings;
use super::transport::{Outgoing, Progress};
use crate::model::id::SpanId;
use crate::model::phases::PhaseTimes;
use crate::model::redact;
use crate::model::tags::Tags;
use crate::runtime::record::{Origin, RequestEnd, StepId, Taken};
use crate::runtime::scenario::{Current, Vu};
use crate::runtime::telemetry::span::{RequestFacts, SpanRecord, What};
use crate::runtime::telemetry::tracer::{new_span_id, traceparent};
use crate::sys::clock;

/// From the first poll of `send` to the last byte of the body; dropped before that, the request was interrupted.
pub(super) struct Measured<'v> {
    vu: &'v Vu,
    row: Option<StepId>,
    pub(super) name: Arc<str>,
    method: http::Method,
    /// The user's, and the request's own.
    tags: (Rc<Tags>, Tags),
    place: Current,
    span: SpanId,
    started: Instant,
    pub(super) progress: Progress,
    /// When the last byte was there, where something is still done with the body.
    stopped: Option<Instant>,
    start_ns: u64,
    facts: Option<Box<RequestFacts>>,
    bytes_sent: u64,
    ended: bool,
}

impl<'v> Measured<'v> {
    pub(super) fn begin(
        vu: &'v Vu,
        method: &http::Method,
        template: &str,
        name: Option<&str>,
        tags: &Tags,
    ) -> Self {
        let (row, name) = match (vu.shard(), name) {
            (None, name) => {
                let of_template = || format!("{method} {}", redact::without_user(template)).into();
                (None, name.map_or_else(of_template, Into::into))
            }
            (Some(shard), None) => {
                let (row, name) = shard.borrow_mut().request_step(vu.slot(), method, template);
                (Some(row), name)
            }
            (Some(shard), Some(name)) => {
                let (row, name) =
                    shard.borrow_mut().step(vu.slot(), crate::model::stats::StepKind::Request, name);
                (Some(row), name)
            }
        };
        let place = vu.current();
        // The wall clock is for spans alone.
        let is_traced = place.trace.as_ref().is_some_and(|trace| trace.facts.is_some());
        Self {
            vu,
            row,
            name,
            method: method.clone(),
            tags: (vu.tags(), tags.clone()),
            place,
            span: new_span_id(),
            started: clock::now(),
            progress: Progress::default(),
            stopped: None,
            start_ns: if is_traced { clock::unix_nanos() } else { 0 },
            facts: None,
            bytes_sent: 0,
            ended: false,
        }
    }

    /// The `traceparent` to send, and what the span will say, before anything is sent. `hop` counts the redirects before.
    pub(super) fn announce(&mut self, outgoing: &Outgoing, template: &str, hop: usize) -> Option<String> {
        let url = &outgoing.url;
        self.bytes_sent = outgoing.body.len() as u64;
        let Some(trace) = self.place.trace.as_ref() else { return self.vu.untraced(self.span) };
        if trace.facts.is_some() {
            self.facts = Some(Box::new(RequestFacts {
                name: self.name.clone(),
                group: self.place.group.clone(),
                method: outgoing.method.clone(),
                // Where a redirect leads has no template.
                template: (hop == 0).then(|| redact::without_user(template).into_owned()),
                hop,
                url: masked(url),
                host: url.host_str().map(str::to_owned),
                port: url.port_or_known_default(),
                status: None,
                version: None,
                error_type: None,
                expected: false,
                phases: PhaseTimes::default(),
                retries: 0,
            }));
        }
        Some(traceparent(trace.trace, self.span, trace.facts.is_some()))
    }

    pub(super) fn head(&mut self, status: u16, version: http::Version) {
        if let Some(facts) = &mut self.facts {
            facts.status = Some(status);
            facts.version = match version {
                http::Version::HTTP_10 => Some("1.0"),
                http::Version::HTTP_11 => Some("1.1"),
                http::Version::HTTP_2 => Some("2"),
                _ => None,
            };
        }
    }

    fn origin(&self) -> Origin<'_> {
        Origin { group: self.place.group.as_deref(), user: &self.tags.0, own: &self.tags.1 }
    }

    /// Stops the clock: what follows is the generator's own work.
    pub(super) fn stop(&mut self) {
        self.stopped = Some(clock::now());
    }

    /// Counts the request; how long it took, and what of it which phase.
    pub(super) fn end(&mut self, end: &RequestEnd) -> Timings {
        let ended = self.stopped.unwrap_or_else(clock::now);
        let taken = Taken {
            total: ended.saturating_duration_since(self.started),
            phases: self.progress.phases(self.started, ended),
            retries: self.progress.retries(),
            bytes_sent: if self.progress.was_handed() { self.bytes_sent } else { 0 },
        };
        self.end_after(end, &taken);
        Timings::new(taken.phases, taken.total)
    }

    fn end_after(&mut self, end: &RequestEnd, taken: &Taken) {
        self.ended = true;
        if let (Some(shard), Some(row)) = (self.vu.shard(), self.row) {
            let origin = self.origin();
            shard.borrow_mut().request(self.vu.slot(), row, &self.method, end, taken, origin);
        }
        let iteration = self.place.trace.as_ref().and_then(|trace| trace.facts.clone());
        let (Some(tracer), Some(mut facts), Some(iteration)) =
            (self.vu.tracer(), self.facts.take(), iteration)
        else {
            return;
        };
        (facts.phases, facts.retries) = (taken.phases, taken.retries);
        match end {
            RequestEnd::Response { status, expected, .. } => {
                facts.expected = *expected;
                // The conventions leave a status unset that is known to be wanted, such as a 404.
                facts.error_type = (!*expected).then(|| status.to_string());
            }
            RequestEnd::Error { class, .. } => facts.error_type = Some((*class).to_owned()),
            RequestEnd::Interrupted => facts.error_type = Some("interrupted".to_owned()),
        }
        tracer.finished(&SpanRecord {
            iteration,
            id: self.span,
            parent: self.place.parent.or(self.place.trace.as_ref().map(|trace| trace.root)),
            start_ns: self.start_ns,
            end_ns: self.start_ns + taken.total.as_nanos() as u64,
            what: What::Request(facts),
            tags: self.vu.all_tags(self.origin()),
        });
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(&RequestEnd::Interrupted);
        }
    }
}
