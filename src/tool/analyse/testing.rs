//! Spans for the tests of this folder.

use std::sync::Arc;

use crate::model::id::{SpanId, TraceId};
use crate::model::span::{LoadRole, LoadSpan, Span, SpanKind};
use crate::model::stats::{Phase, StepKind};

/// An internal span of the service `svc`, named by its id, without a parent, of no length.
pub(super) fn span(id: u64) -> Span {
    Span {
        trace: TraceId(7),
        id: SpanId(id),
        parent: None,
        service: "svc".into(),
        name: id.to_string().into(),
        kind: SpanKind::Internal,
        start_ns: 0,
        end_ns: 0,
        error: false,
        load: None,
    }
}

/// A request of the scenario `s`.
pub(super) fn request(id: u64, name: &str) -> Span {
    step_of(StepKind::Request, id, name).kind(SpanKind::Client)
}

/// A timed step of the scenario `s`.
pub(super) fn step(id: u64, name: &str) -> Span {
    step_of(StepKind::Step, id, name)
}

fn step_of(kind: StepKind, id: u64, name: &str) -> Span {
    span(id).named(name).of("loadtest").load(LoadRole::Step { kind, name: name.into() })
}

impl Span {
    pub(super) fn at(mut self, start_ns: u64, end_ns: u64) -> Self {
        (self.start_ns, self.end_ns) = (start_ns, end_ns);
        self
    }

    pub(super) fn under(mut self, parent: u64) -> Self {
        self.parent = Some(SpanId(parent));
        self
    }

    pub(super) fn of(mut self, service: &str) -> Self {
        self.service = service.into();
        self
    }

    pub(super) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(super) fn kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    pub(super) fn server(self, service: &str) -> Self {
        self.of(service).kind(SpanKind::Server)
    }

    pub(super) fn client(self, service: &str) -> Self {
        self.of(service).kind(SpanKind::Client)
    }

    pub(super) fn load(mut self, role: LoadRole) -> Self {
        let load = LoadSpan { role, scenario: "s".into(), phase: Phase::Load, weight: 1.0, expected: true };
        self.load = Some(load.into());
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut LoadSpan)) -> Self {
        change(Arc::make_mut(self.load.as_mut().expect("a span of the scenario process")));
        self
    }

    pub(super) fn in_trace(mut self, trace: u128) -> Self {
        self.trace = TraceId(trace);
        self
    }
}
