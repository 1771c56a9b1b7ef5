//! Spans that a scenario's own code makes with `tracing`: they join the trace of their iteration.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::trace::{SpanContext, TraceContextExt as _, TraceFlags, TraceState, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{IdGenerator, SdkTracerProvider, Span, SpanData, SpanProcessor};
use tracing::Subscriber;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::buffer::SpanSink;
use crate::model::id::{SpanId, TraceId};
use crate::model::semconv;

/// Where finished spans go, once a run has begun.
static SINK: OnceLock<SpanSink> = OnceLock::new();

/// The author has asked for the layer.
static JOINED: AtomicBool = AtomicBool::new(false);

/// The context in which spans become children of `span`.
pub(crate) fn context(trace: TraceId, span: SpanId) -> Context {
    Context::new().with_remote_span_context(SpanContext::new(
        trace.0.into(),
        span.0.into(),
        TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    ))
}

/// The layer that takes the spans of a scenario's own code into the trace of their iteration, for authors who set a
/// global subscriber themselves. Without one of their own it is installed for them.
///
/// ```
/// use tracing_subscriber::prelude::*;
/// let subscriber = tracing_subscriber::registry().with(loadtest::tracing_layer());
/// # let _ = subscriber;
/// ```
pub fn tracing_layer<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    JOINED.store(true, Ordering::Relaxed);
    layer()
}

fn layer<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let provider =
        SdkTracerProvider::builder().with_id_generator(RandomIds).with_span_processor(ToQueue).build();
    let layer = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_tracer(provider.tracer("loadtest.author"));
    // Only inside traced iterations; asked at each span, since the answer differs from iteration to iteration.
    layer.with_filter(dynamic_filter_fn(|_, _| {
        Context::map_current(|context| context.span().span_context().is_sampled())
    }))
}

/// Installs the layer as the global subscriber; `false` when the author has set one without it.
pub(crate) fn install(sink: SpanSink) -> bool {
    // A second run in one process goes on with the first one's queue.
    let _ = SINK.set(sink);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer())).is_ok()
        || JOINED.load(Ordering::Relaxed)
}

#[derive(Debug)]
struct RandomIds;

impl IdGenerator for RandomIds {
    fn new_trace_id(&self) -> opentelemetry::TraceId {
        opentelemetry::TraceId::from_bytes(fastrand::u128(1..).to_be_bytes())
    }

    fn new_span_id(&self) -> opentelemetry::SpanId {
        super::tracer::new_span_id().0.into()
    }
}

#[derive(Debug)]
struct ToQueue;

impl SpanProcessor for ToQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        let Some(sink) = SINK.get() else { return };
        span.attributes.push(KeyValue::new(semconv::ROLE, "author"));
        sink.author(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}
