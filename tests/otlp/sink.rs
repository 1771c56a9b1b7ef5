//! An OTLP endpoint that keeps what it is sent: gRPC and HTTP on one port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status};

#[derive(Debug, Default)]
struct Received {
    spans: Vec<(String, Span)>,
    /// With the attributes of their resource.
    metrics: Vec<(Vec<KeyValue>, Vec<Metric>)>,
    /// gRPC calls, HTTP requests.
    calls: (usize, usize),
}

impl Received {
    fn traces(&mut self, request: ExportTraceServiceRequest) {
        for group in request.resource_spans {
            let resource = group.resource.unwrap_or_default();
            let service = text(&resource.attributes, "service.name");
            let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.extend(spans.map(|span| (service.clone(), span)));
        }
    }

    fn metrics(&mut self, request: ExportMetricsServiceRequest) {
        for group in request.resource_metrics {
            let metrics = group.scope_metrics.into_iter().flat_map(|scope| scope.metrics).collect();
            self.metrics.push((group.resource.unwrap_or_default().attributes, metrics));
        }
    }
}

/// The running endpoint; it ends when dropped.
pub(crate) struct Sink {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    _stop: oneshot::Sender<()>,
}

impl Sink {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Received::default()));
        let (stop, stopped) = oneshot::channel::<()>();
        let service = Service(received.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let router = tonic::service::Routes::new(TraceServiceServer::new(service.clone()))
                    .add_service(MetricsServiceServer::new(service.clone()))
                    .into_axum_router()
                    .merge(
                        Router::new()
                            .route("/v1/traces", post(http_traces))
                            .route("/v1/metrics", post(http_metrics))
                            .with_state(service),
                    );
                tokio::select! {
                    ended = axum::serve(listener, router) => ended.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { address, received, _stop: stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of a service, by the name in its resource.
    pub(crate) fn spans(&self, service: &str) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        received.spans.iter().filter(|(of, _)| of == service).map(|(_, span)| span.clone()).collect()
    }

    /// What was said each time of a service's metric, in the order of arrival.
    pub(crate) fn metrics(&self, service: &str, name: &str) -> Vec<Metric> {
        let all = self.all_metrics(service).into_iter();
        all.map(|(_, metric)| metric).filter(|metric| metric.name == name).collect()
    }

    /// Everything that was said of a service in metrics, with the attributes of its resource.
    pub(crate) fn all_metrics(&self, service: &str) -> Vec<(Vec<KeyValue>, Metric)> {
        let received = self.received.lock().unwrap();
        let of_service = received.metrics.iter().filter(|(of, _)| text(of, "service.name") == service);
        let with_resource = |(of, metrics): &(Vec<KeyValue>, Vec<Metric>)| {
            metrics.iter().map(|metric| (of.clone(), metric.clone())).collect::<Vec<_>>()
        };
        of_service.flat_map(with_resource).collect()
    }

    /// How many gRPC calls and HTTP requests came.
    pub(crate) fn calls(&self) -> (usize, usize) {
        self.received.lock().unwrap().calls
    }
}

#[derive(Clone)]
struct Service(Arc<Mutex<Received>>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.0.lock().unwrap();
        received.calls.0 += 1;
        received.traces(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let mut received = self.0.lock().unwrap();
        received.calls.0 += 1;
        received.metrics(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// Services send JSON here, scenario processes protobuf.
fn decoded<M: Message + Default + serde::de::DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> M {
    if headers["content-type"] == "application/json" {
        serde_json::from_slice(body).unwrap()
    } else {
        M::decode(body.clone()).unwrap()
    }
}

async fn http_traces(
    State(Service(received)): State<Service>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut received = received.lock().unwrap();
    received.calls.1 += 1;
    received.traces(decoded(&headers, &body));
    StatusCode::OK
}

async fn http_metrics(
    State(Service(received)): State<Service>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut received = received.lock().unwrap();
    received.calls.1 += 1;
    received.metrics(decoded(&headers, &body));
    StatusCode::OK
}

/// An attribute's value as text; empty where there is none.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|it| it.value.clone());
    match value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text,
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        Some(AnyValue { value: Some(Value::BoolValue(flag)) }) => flag.to_string(),
        Some(AnyValue { value: Some(Value::DoubleValue(number)) }) => number.to_string(),
        _ => String::new(),
    }
}
