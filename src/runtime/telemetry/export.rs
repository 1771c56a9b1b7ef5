//! The export thread: takes spans off the queue and metrics out of snapshots and sends them over OTLP/HTTP, on a
//! runtime of its own, never on the load's.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_http::HttpClient as _;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prost::Message as _;

use super::intervals::IntervalSink;
use super::metrics::Metrics;
use super::resource;
use super::span::{Item, SpanRecord, SpanSink, What};
use crate::model::id::{SpanId, TraceId};
use crate::model::secret::Secrets;
use crate::model::semconv;
use crate::model::stats::{Interval, StepKind};
use crate::runtime::http::ExportClient;

/// Spans in one request.
const BATCH: usize = 512;
/// How long the first span of a batch waits for more.
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
    queue_full: Arc<AtomicU64>,
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
        let (sink, spans, queue_full) = SpanSink::new();
        let (metrics, intervals) = IntervalSink::new();
        let (counts, finish) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let mut pump = Pump {
            metrics: Metrics::new(attributes, crate::sys::clock::unix_nanos()),
            exporter,
            metrics_url: format!("{base}/v1/metrics"),
            client: ExportClient::default(),
            scope: InstrumentationScope::builder("cargo-loadtest")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
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
            .spawn(move || pump.run(&runtime, &spans, &intervals, &finishing))
            .map_err(|error| format!("cannot start the export thread: {error}"))?;
        Ok(Self { sink, metrics, queue_full, counts, finish, thread })
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
        while patient() {
            thread::sleep(Duration::from_millis(5));
        }
        let metrics_failed = self.counts.metrics_failed.load(Ordering::Relaxed) + u64::from(!flushed);
        let spans = self.counts.spans.load(Ordering::Relaxed);
        let lost = self.queue_full.load(Ordering::Relaxed) + self.counts.spans_failed.load(Ordering::Relaxed);
        (spans, lost, metrics_failed)
    }
}

struct Pump {
    metrics: Metrics,
    exporter: opentelemetry_otlp::SpanExporter,
    metrics_url: String,
    client: ExportClient,
    scope: InstrumentationScope,
    counts: Arc<Counts>,
    secrets: Secrets,
}

impl Pump {
    fn run(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        spans: &Receiver<Item>,
        intervals: &Receiver<Interval>,
        finish: &AtomicBool,
    ) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let finishing = finish.load(Ordering::Relaxed);
            let until = crate::sys::clock::now() + DELAY;
            let open = self.gather(spans, &mut batch, until);
            let full = !batch.is_empty();
            if full {
                runtime.block_on(self.send_spans(std::mem::take(&mut batch)));
            }
            let mut fresh = false;
            for interval in intervals.try_iter() {
                self.metrics.add(&interval);
                fresh = true;
            }
            if fresh {
                let request = self.metrics.request(crate::sys::clock::unix_nanos());
                runtime.block_on(self.send_metrics(request));
            } else if finishing && !full || !open {
                return;
            }
        }
    }

    /// Fills the batch until it is full or `until` has come; whether the queue is still open.
    fn gather(
        &mut self,
        spans: &Receiver<Item>,
        batch: &mut Vec<SpanData>,
        until: std::time::Instant,
    ) -> bool {
        while batch.len() < BATCH {
            match spans.recv_timeout(until.saturating_duration_since(crate::sys::clock::now())) {
                Ok(Item::Load(span)) => {
                    self.metrics.note(&span);
                    batch.push(span_data(span, &self.scope));
                }
                Ok(Item::Author(span)) => batch.push(*span),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    async fn send_spans(&self, mut batch: Vec<SpanData>) {
        batch.iter_mut().for_each(|span| mask(span, &self.secrets));
        let count = batch.len() as u64;
        let delivered = self.exporter.export(batch).await.is_ok();
        let counter = if delivered { &self.counts.spans } else { &self.counts.spans_failed };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    async fn send_metrics(&self, request: ExportMetricsServiceRequest) {
        let request = http::Request::post(&self.metrics_url)
            .header(http::header::CONTENT_TYPE, "application/x-protobuf")
            .body(request.encode_to_vec().into());
        let sent = match request {
            Ok(request) => self.client.send_bytes(request).await,
            Err(invalid) => Err(invalid.into()),
        };
        if !sent.is_ok_and(|response| response.status().is_success()) {
            self.counts.metrics_failed.fetch_add(1, Ordering::Relaxed);
        }
    }
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

fn time(unix_nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_nanos)
}

fn span_context(trace: TraceId, span: SpanId, remote: bool) -> SpanContext {
    let (trace, span) = (trace.0.into(), span.0.into());
    SpanContext::new(trace, span, TraceFlags::SAMPLED, remote, TraceState::NONE)
}

/// The span of the whole run, which its iterations link to.
pub(crate) fn run_span((trace, span): (TraceId, SpanId), start_ns: u64, end_ns: u64) -> Item {
    Item::Author(Box::new(SpanData {
        span_context: span_context(trace, span, false),
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
    }))
}

/// Client spans follow OpenTelemetry's HTTP semantic conventions.
fn span_data(span: SpanRecord, scope: &InstrumentationScope) -> SpanData {
    let facts = span.iteration;
    let mut attributes = vec![
        KeyValue::new(semconv::SCENARIO, facts.scenario.to_string()),
        KeyValue::new(semconv::PHASE, facts.phase.as_str()),
        KeyValue::new(semconv::WEIGHT, facts.weight),
        KeyValue::new(semconv::VU, facts.vu as i64),
        KeyValue::new(semconv::ITERATION, facts.iteration as i64),
    ];
    let mut links = SpanLinks::default();
    let step = |name: &str, kind: StepKind, group: Option<Arc<str>>, expected: bool| {
        let kind = if kind == StepKind::Request { "request" } else { "step" };
        let mut step = vec![
            KeyValue::new(semconv::ROLE, "step"),
            KeyValue::new(semconv::STEP, name.to_owned()),
            KeyValue::new(semconv::STEP_KIND, kind),
            KeyValue::new(semconv::EXPECTED, expected),
        ];
        step.extend(group.map(|group| KeyValue::new(semconv::GROUP, group.to_string())));
        step
    };
    let (name, span_kind, status) = match span.what {
        What::Iteration { error, run_span } => {
            attributes.push(KeyValue::new(semconv::ROLE, "iteration"));
            let run = span_context(run_span.0, run_span.1, false);
            links.links.push(opentelemetry::trace::Link::with_context(run));
            (format!("iteration {}", facts.scenario), SpanKind::Internal, error)
        }
        What::Step { name, group, error } => {
            attributes.extend(step(&name, StepKind::Step, group, error.is_none()));
            (name.to_string(), SpanKind::Internal, error)
        }
        What::Request(request) => {
            attributes.extend(step(&request.name, StepKind::Request, request.group, request.expected));
            let name = match &request.template {
                Some(template) => format!("{} {template}", request.method),
                None => request.method.to_string(),
            };
            attributes.extend([
                KeyValue::new("http.request.method", request.method.to_string()),
                KeyValue::new("url.full", request.url),
                KeyValue::new("user_agent.synthetic.type", "test"),
            ]);
            attributes.extend(request.template.map(|template| KeyValue::new("url.template", template)));
            if request.hop > 0 {
                attributes.push(KeyValue::new("http.request.resend_count", request.hop as i64));
            }
            attributes.extend(request.host.map(|host| KeyValue::new("server.address", host)));
            attributes.extend(request.port.map(|port| KeyValue::new("server.port", i64::from(port))));
            attributes.extend(
                request.status.map(|code| KeyValue::new("http.response.status_code", i64::from(code))),
            );
            attributes
                .extend(request.version.map(|version| KeyValue::new("network.protocol.version", version)));
            attributes.extend(request.error_type.clone().map(|class| KeyValue::new("error.type", class)));
            (name, SpanKind::Client, request.error_type)
        }
    };
    SpanData {
        span_context: span_context(facts.trace, span.id, false),
        parent_span_id: span.parent.map_or(opentelemetry::SpanId::INVALID, |parent| parent.0.into()),
        parent_span_is_remote: false,
        span_kind,
        name: name.into(),
        start_time: time(span.start_ns),
        end_time: time(span.end_ns),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: status.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}
