//! One user of one scenario as the engine drives it: setup, then iterations, each measured, traced and caught.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use opentelemetry::trace::FutureExt as _;

use super::flow::UserState;
pub(crate) use super::flow::{Flow, Shared};
use super::{Current, Vu, VuParts};
use crate::model::stats::Phase;
use crate::model::tags::Tags;
use crate::runtime::engine::{Start, User};
use crate::runtime::host::panics;
use crate::runtime::record::{Origin, WorkEnd};
use crate::runtime::telemetry::author;
use crate::runtime::telemetry::span::{SpanRecord, What};
use crate::runtime::telemetry::tracer::IterationTrace;
use crate::sys::clock;

pub(crate) struct ScenarioUser {
    flow: Arc<dyn Flow>,
    shared: Shared,
    vu: Vu,
    state: Option<UserState>,
}

impl ScenarioUser {
    pub(crate) fn new(flow: Arc<dyn Flow>, shared: Shared, parts: VuParts) -> Self {
        Self { flow, shared, vu: Vu::new(parts), state: None }
    }
}

impl User for ScenarioUser {
    fn prepare(&mut self) -> LocalBoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            // Per-user setup is in no figure: it acts through a user that records nothing.
            let setting_up = Vu::new(self.vu.without_figures());
            let made = caught(self.flow.user_setup(&setting_up, &self.shared)).await?;
            // What it has signed in to, the user goes on with, unless it begins each iteration without cookies.
            self.vu.jar().swap(setting_up.jar());
            self.state = Some(made);
            Ok(())
        })
    }

    fn iterate(&mut self, start: Start) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(state) = &mut self.state else { return };
            let mut iteration = Iteration::begin(&self.vu, start);
            // The call itself may panic, before there is a future.
            let work = async { self.flow.iterate(&self.vu, state, &self.shared).await };
            let work = panics::catch(AssertUnwindSafe(work));
            let ended = match iteration.context() {
                Some(context) => work.with_context(context).await,
                None => work.await,
            };
            iteration.end(&match ended {
                Ok(Ok(())) => WorkEnd::Done,
                Ok(Err(error)) => WorkEnd::Failed(error.chain()),
                Err(panic) => WorkEnd::Panicked(panic),
            });
        })
    }
}

/// Runs a part of a scenario's code that is in no figure; its error or panic becomes a message.
pub(crate) async fn caught<T>(
    work: LocalBoxFuture<'_, crate::runtime::error::Result<T>>,
) -> Result<T, String> {
    panics::catch(AssertUnwindSafe(work)).map(|ended| ended?.map_err(|error| error.chain())).await
}

/// An iteration that is going on; dropped before its end, it was interrupted.
struct Iteration<'v> {
    vu: &'v Vu,
    trace: Option<Rc<IterationTrace>>,
    /// In an open model, when it was due.
    scheduled: Option<Instant>,
    started: Instant,
    start_ns: u64,
    ended: bool,
}

impl<'v> Iteration<'v> {
    fn begin(vu: &'v Vu, start: Start) -> Self {
        let Start { row, is_warm_up, scheduled } = start;
        vu.enter_row(row);
        if !vu.requests().keep_cookies {
            vu.jar().borrow_mut().clear();
        }
        let started = clock::now();
        let phase = is_warm_up.then_some(Phase::WarmUp);
        let trace = vu.tracer().map(|tracer| Rc::new(tracer.begin(vu.id(), vu.iteration(), started, phase)));
        if let (Some(shard), Some(scheduled)) = (vu.shard(), scheduled) {
            shard.borrow_mut().lag(row, started.saturating_duration_since(scheduled));
        }
        if let (Some(shard), Some(trace)) = (vu.shard(), &trace) {
            shard.borrow_mut().seen_for_tracing(vu.slot(), trace.facts.is_some());
        }
        vu.swap_current(Current { trace: trace.clone(), parent: None, group: None });
        // The wall clock is for spans alone.
        let is_traced = trace.as_ref().is_some_and(|trace| trace.facts.is_some());
        let start_ns = if is_traced { clock::unix_nanos() } else { 0 };
        Self { vu, trace, scheduled, started, start_ns, ended: false }
    }

    /// What spans of the author's own code are children of, in a traced iteration.
    fn context(&self) -> Option<opentelemetry::Context> {
        let trace = self.trace.as_ref()?;
        trace.facts.as_ref().map(|facts| author::context(facts.trace, trace.root))
    }

    fn end(&mut self, end: &WorkEnd) {
        self.ended = true;
        let flow = self.vu.take_flow();
        let now = clock::now();
        let took = now.saturating_duration_since(self.started);
        let (tags, own) = (self.vu.tags(), Tags::default());
        let origin = Origin { group: None, user: &tags, own: &own };
        if let Some(shard) = self.vu.shard() {
            let mut shard = shard.borrow_mut();
            shard.iteration(self.vu.slot(), end, took, origin);
            if let Some(scheduled) = self.scheduled {
                shard.response(self.vu.slot(), end, now.saturating_duration_since(scheduled));
            }
            if let Some(flow) = flow {
                shard.flow(self.vu.slot(), &flow, end);
            }
        }
        self.vu.next_iteration();
        self.vu.swap_current(Current::default());
        let (Some(tracer), Some(trace)) = (self.vu.tracer(), &self.trace) else { return };
        let Some(facts) = trace.facts.clone() else { return };
        tracer.finished(&SpanRecord {
            iteration: facts,
            id: trace.root,
            parent: None,
            start_ns: self.start_ns,
            end_ns: self.start_ns + took.as_nanos() as u64,
            tags: self.vu.all_tags(origin),
            what: What::Iteration {
                error: match end {
                    WorkEnd::Done => None,
                    WorkEnd::Failed(message) | WorkEnd::Panicked(message) => Some(message.clone()),
                    WorkEnd::Interrupted => Some("interrupted".into()),
                },
                run_span: tracer.run_span(),
            },
        });
    }
}

impl Drop for Iteration<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(&WorkEnd::Interrupted);
        }
    }
}
