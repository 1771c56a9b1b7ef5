//! Logs to stderr, and spans over OTLP where the environment names an endpoint. The standard variables
//! are honoured: `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`.

use std::{env, str::FromStr as _, time::Duration};

use anyhow::{Context as _, bail};
use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tokio::runtime::Handle;
use tonic::async_trait;
use tracing::{Level, Subscriber, warn};
use tracing_subscriber::{
    Layer, Registry,
    filter::{FilterExt as _, LevelFilter, Targets, filter_fn},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the axum and tonic layers put their spans.
const INSTRUMENTATION: &str = "otel::tracing";

/// The process's telemetry, to be shut down before it ends.
#[derive(Debug)]
pub(crate) struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

/// Installs the process's subscriber and propagator. To be called once, from outside the runtime.
pub(crate) fn init(service: &'static str, runtime: &Handle) -> anyhow::Result<Telemetry> {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let provider = match first_set(ENDPOINTS) {
        Some(_) => Some(provider(service, runtime)?),
        None => None,
    };
    let spans = provider.as_ref().map(|provider| span_layer(provider, service));
    Registry::default().with(spans).with(log_layer()?).try_init().context("telemetry was set up before")?;
    Ok(Telemetry { provider })
}

impl Telemetry {
    /// Sends what is still queued. Blocks, so it must run outside the runtime.
    pub(crate) fn shutdown(self) {
        if let Some(Err(error)) = self.provider.map(|provider| provider.shutdown()) {
            warn!("the last spans may be lost: {error}");
        }
    }
}

fn provider(service: &'static str, runtime: &Handle) -> anyhow::Result<SdkTracerProvider> {
    let exporter = match first_set(PROTOCOLS).as_deref() {
        Some("grpc") => {
            // Its channel spawns a task.
            let _runtime = runtime.enter();
            SpanExporter::builder().with_tonic().build()
        }
        None | Some("http/protobuf") => {
            let client = HyperClient::with_default_connector(EXPORT_TIMEOUT, None);
            let client = OnRuntime { client, runtime: runtime.clone() };
            SpanExporter::builder().with_http().with_http_client(client).build()
        }
        Some(other) => bail!("{} is `{other}`: only `grpc` and `http/protobuf` are supported", PROTOCOLS[1]),
    };
    let exporter = exporter.context("cannot export spans to the configured OTLP endpoint")?;
    let mut resource = Resource::builder();
    if first_set(["OTEL_SERVICE_NAME"]).is_none() {
        resource = resource.with_service_name(service);
    }
    Ok(SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build())
}

/// Sends from the exporter's own thread, where hyper would find no runtime.
#[derive(Debug)]
struct OnRuntime {
    client: HyperClient,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

/// Spans of this crate and of the instrumentation crates; those of the transports, which export spans
/// themselves, would feed on their own.
fn span_layer<S>(provider: &SdkTracerProvider, service: &'static str) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(service))
        // What these would add to every span costs more than it tells.
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(
            Targets::new()
                .with_target(env!("CARGO_CRATE_NAME"), Level::INFO)
                .with_target(INSTRUMENTATION, Level::TRACE),
        )
}

/// Events only: to format every span for logs that seldom come would be work on each request.
fn log_layer<S>() -> anyhow::Result<impl Layer<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let targets = match first_set(["RUST_LOG"]) {
        Some(directives) => {
            Targets::from_str(&directives).context("RUST_LOG is not a list of target=level")?
        }
        None => Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target(env!("CARGO_CRATE_NAME"), LevelFilter::INFO),
    };
    Ok(tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(targets.and(filter_fn(|metadata| !metadata.is_span()))))
}

/// The first of the variables that is set to something, as the specification reads empty ones as unset.
fn first_set<const N: usize>(names: [&str; N]) -> Option<String> {
    names.into_iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}
