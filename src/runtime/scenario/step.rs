//! Timed steps: any work of a scenario, with a row and a span of its own.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Current, Vu};
use crate::model::stats::StepKind;
use crate::model::tags::Tags;
use crate::runtime::error::Result;
use crate::runtime::record::{Origin, StepId, WorkEnd};
use crate::runtime::telemetry::author;
use crate::runtime::telemetry::span::{SpanRecord, What};
use crate::runtime::telemetry::tracer::new_span_id;
use crate::sys::clock;

/// Work in a step. While it is polled the user is inside the step, so that steps can run beside each other.
pub(super) struct StepFuture<'v, F> {
    running: Option<Running<'v>>,
    vu: &'v Vu,
    name: String,
    work: Pin<Box<F>>,
}

/// From the first poll to the end; dropped before it, the step was interrupted.
struct Running<'v> {
    vu: &'v Vu,
    id: Option<StepId>,
    name: Arc<str>,
    tags: Rc<Tags>,
    outer: Current,
    inner: Current,
    context: Option<opentelemetry::Context>,
    started: Instant,
    start_ns: u64,
    ended: bool,
}

impl<'v, F> StepFuture<'v, F> {
    pub(super) fn new(vu: &'v Vu, name: &str, work: F) -> Self {
        Self { running: None, vu, name: name.to_owned(), work: Box::pin(work) }
    }
}

impl<'v> Running<'v> {
    fn begin(vu: &'v Vu, name: &str) -> Self {
        let (id, name) = match vu.shard() {
            Some(shard) => {
                let (id, name) = shard.borrow_mut().step(vu.slot(), StepKind::Step, name);
                (Some(id), name)
            }
            None => (None, name.into()),
        };
        let outer = vu.current();
        let span = new_span_id();
        let inner = Current { trace: outer.trace.clone(), parent: Some(span), group: Some(name.clone()) };
        let traced = outer.trace.as_ref().and_then(|trace| trace.facts.as_ref());
        let context = traced.map(|facts| author::context(facts.trace, span));
        Self {
            vu,
            id,
            name,
            tags: vu.tags(),
            outer,
            inner,
            started: clock::now(),
            // The wall clock is for spans alone.
            start_ns: if context.is_some() { clock::unix_nanos() } else { 0 },
            context,
            ended: false,
        }
    }

    fn end(&mut self, end: &WorkEnd) {
        self.ended = true;
        let took = clock::now().saturating_duration_since(self.started);
        let own = Tags::default();
        let origin = Origin { group: self.outer.group.as_deref(), user: &self.tags, own: &own };
        if let (Some(shard), Some(id)) = (self.vu.shard(), self.id) {
            shard.borrow_mut().work(self.vu.slot(), id, end, took, origin);
        }
        let facts = self.outer.trace.as_ref().and_then(|trace| trace.facts.clone());
        if let (Some(tracer), Some(facts), Some(span)) = (self.vu.tracer(), facts, self.inner.parent) {
            let root = self.outer.trace.as_ref().map(|trace| trace.root);
            tracer.finished(&SpanRecord {
                iteration: facts,
                id: span,
                parent: self.outer.parent.or(root),
                start_ns: self.start_ns,
                end_ns: self.start_ns + took.as_nanos() as u64,
                tags: self.vu.all_tags(origin),
                what: What::Step {
                    name: self.name.clone(),
                    group: self.outer.group.clone(),
                    error: match end {
                        WorkEnd::Done => None,
                        WorkEnd::Failed(message) | WorkEnd::Panicked(message) => Some(message.clone()),
                        WorkEnd::Interrupted => Some("interrupted".into()),
                    },
                },
            });
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let end = if std::thread::panicking() {
                WorkEnd::Panicked("panicked".into())
            } else {
                WorkEnd::Interrupted
            };
            self.end(&end);
        }
    }
}

impl<T, F: Future<Output = Result<T>>> Future for StepFuture<'_, F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let running = this.running.get_or_insert_with(|| Running::begin(this.vu, &this.name));
        let outer = this.vu.swap_current(running.inner.clone());
        let polled = {
            let _attached = running.context.clone().map(opentelemetry::Context::attach);
            this.work.as_mut().poll(cx)
        };
        this.vu.swap_current(outer);
        if let Poll::Ready(result) = &polled {
            running.end(&match result {
                Ok(_) => WorkEnd::Done,
                Err(error) => WorkEnd::Failed(error.chain()),
            });
        }
        polled
    }
}
