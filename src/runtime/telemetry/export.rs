//! The export thread: sends the spans that wait, and metrics made of snapshots, over OTLP/HTTP, on a
//! runtime of its own, never on the load's.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prost::Message as _;

use super::buffer::{self, Chunk, SpanSink, SpanSource};
use super::deliver::Delivery;
use super::intervals::IntervalSink;
use super::metrics::Metrics;
use super::resource;
use crate::model::id::{SpanId, TraceId};
use crate::model::secret::Secrets;
use crate::model::semconv;
use crate::model::stats::Interval;
use crate::runtime::http::ExportClient;

/// The author's own spans in one request.
const BATCH: usize = 512;
/// How long spans wait for more.
const DELAY: Duration = Duration::from_millis(100);

/// What was delivered and what was not.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) spans: AtomicU64,
    pub(crate) spans_failed: AtomicU64,
    pub(crate) metrics_failed: AtomicU64,
}

/// The running export.
#[derive(Debug)]
pub(crate) struct Export {
    sink: SpanSink,
    metrics: IntervalSink,
    counts: Arc<Counts>,
    finish: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Export {
    /// Starts the thread. `endpoint` is the base URL of an OTLP/HTTP receiver.
    pub(crate) fn start(
        endpoint: &str,
        attributes: &[(String, String)],
        secrets: Secrets,
    ) -> Result<Self, String> {
        let base = endpoint.trim_end_matches('/').to_owned();
        let mut exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(ExportClient::default())
            .with_endpoint(format!("{base}/v1/traces"))
            .build()
            .map_err(|error| format!("cannot export spans to {base}: {error}"))?;
        exporter.set_resource(&resource::sdk(attributes));
        let (sink, spans) = buffer::spans(attributes, secrets.clone());
        let (metrics, intervals) = IntervalSink::new();
        let (counts, finish) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let mut pump = Pump {
            spans,
            traces: Delivery::new(format!("{base}/v1/traces"), "TRACES"),
            authors: exporter,
            metrics: Metrics::new(attributes, crate::sys::clock::unix_nanos()),
            to_metrics: Delivery::new(format!("{base}/v1/metrics"), "METRICS"),
            counts: counts.clone(),
            secrets,
        };
        let finishing = finish.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the export thread's runtime: {error}"))?;
        let thread = thread::Builder::new()
            .name("otlp-export".into())
            .spawn(move || pump.run(&runtime, &intervals, &finishing))
            .map_err(|error| format!("cannot start the export thread: {error}"))?;
        Ok(Self { sink, metrics, counts, finish, thread })
    }

    pub(crate) fn sink(&self) -> &SpanSink {
        &self.sink
    }

    /// Hands an interval's figures on; never waits.
    pub(crate) fn metrics(&self, interval: &Interval) {
        self.metrics.push(interval);
    }

    /// Exports what is left, for at most `patience`. Spans exported, spans lost, metric requests lost.
    pub(crate) fn finish(self, patience: Duration) -> (u64, u64, u64) {
        let until = crate::sys::clock::now() + patience;
        let patient = || !self.thread.is_finished() && crate::sys::clock::now() < until;
        let mut flushed = self.metrics.flush();
        while !flushed && patient() {
            thread::sleep(Duration::from_millis(5));
            flushed = self.metrics.flush();
        }
        self.finish.store(true, Ordering::Relaxed);
        self.sink.wake();
        while patient() {
            thread::sleep(Duration::from_millis(5));
        }
        let metrics_failed = self.counts.metrics_failed.load(Ordering::Relaxed) + u64::from(!flushed);
        let spans = self.counts.spans.load(Ordering::Relaxed);
        let lost = self.sink.dropped() + self.counts.spans_failed.load(Ordering::Relaxed);
        (spans, lost, metrics_failed)
    }
}

struct Pump {
    spans: SpanSource,
    traces: Delivery,
    authors: opentelemetry_otlp::SpanExporter,
    metrics: Metrics,
    to_metrics: Delivery,
    counts: Arc<Counts>,
    secrets: Secrets,
}

impl Pump {
    fn run(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        intervals: &Receiver<Interval>,
        finish: &AtomicBool,
    ) {
        self.spans.be_woken();
        loop {
            let finishing = finish.load(Ordering::Relaxed);
            let chunks = self.spans.take();
            let authors = self.spans.take_authors(BATCH);
            let more = authors.len() == BATCH;
            let mut idle = chunks.is_empty() && authors.is_empty();
            for (scenario, chunk) in chunks {
                runtime.block_on(self.send_spans(&scenario, chunk));
            }
            if !authors.is_empty() {
                runtime.block_on(self.send_authors(authors));
            }
            let mut fresh = false;
            for interval in intervals.try_iter() {
                self.metrics.add(&interval);
                fresh = true;
            }
            if fresh {
                idle = false;
                let request = self.metrics.request(crate::sys::clock::unix_nanos());
                if runtime.block_on(self.to_metrics.send(&request.encode_to_vec().into())).is_none() {
                    self.counts.metrics_failed.fetch_add(1, Ordering::Relaxed);
                }
            }
            if finishing && idle {
                return;
            }
            if !finishing && !more {
                thread::park_timeout(DELAY);
            }
        }
    }

    async fn send_spans(&mut self, scenario: &str, chunk: Chunk) {
        let Chunk { bytes, spans, samples } = chunk;
        self.metrics.note(scenario, samples);
        let body = self.spans.request(bytes);
        let refused = match self.traces.send(&body).await {
            Some(answer) => refused(answer).min(spans),
            None => spans,
        };
        self.spans.reuse(body);
        self.count(spans, refused);
    }

    async fn send_authors(&self, mut batch: Vec<SpanData>) {
        batch.iter_mut().for_each(|span| mask(span, &self.secrets));
        let count = batch.len() as u64;
        let delivered = self.authors.export(batch).await.is_ok();
        self.count(count, if delivered { 0 } else { count });
    }

    fn count(&self, spans: u64, failed: u64) {
        self.counts.spans.fetch_add(spans - failed, Ordering::Relaxed);
        self.counts.spans_failed.fetch_add(failed, Ordering::Relaxed);
    }
}

/// How many spans of a request a receiver says it did not take.
fn refused(answer: Bytes) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    answer.partial_success.map_or(0, |partial| partial.rejected_spans.try_into().unwrap_or(0))
}

/// Takes the configured secrets out of a span.
fn mask(span: &mut SpanData, secrets: &Secrets) {
    let masked = |text: &str| match secrets.mask(text) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    };
    if let Some(name) = masked(&span.name) {
        span.name = name.into();
    }
    if let Status::Error { description } = &span.status
        && let Some(description) = masked(description)
    {
        span.status = Status::error(description);
    }
    let events = span.events.events.iter_mut().flat_map(|event| &mut event.attributes);
    for attribute in span.attributes.iter_mut().chain(events) {
        if let Value::String(text) = &attribute.value
            && let Some(text) = masked(text.as_str())
        {
            attribute.value = text.into();
        }
    }
}

/// The span of the whole run, which its iterations link to.
pub(crate) fn run_span((trace, span): (TraceId, SpanId), start_ns: u64, end_ns: u64) -> SpanData {
    let time = |unix_nanos| UNIX_EPOCH + Duration::from_nanos(unix_nanos);
    let (trace, span) = (trace.0.into(), span.0.into());
    SpanData {
        span_context: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: opentelemetry::SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "loadtest run".into(),
        start_time: time(start_ns),
        end_time: time(end_ns),
        attributes: vec![KeyValue::new(semconv::ROLE, "run")],
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("cargo-loadtest").build(),
    }
}
