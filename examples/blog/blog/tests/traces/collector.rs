//! An OTLP receiver that keeps what it gets, over gRPC and HTTP on one port.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, service::Routes};

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) service: String,
    pub(crate) span: Span,
}

impl Received {
    pub(crate) fn id(&self) -> (&[u8], &[u8]) {
        (&self.span.trace_id, &self.span.span_id)
    }

    pub(crate) fn parent_id(&self) -> (&[u8], &[u8]) {
        (&self.span.trace_id, &self.span.parent_span_id)
    }

    pub(crate) fn step(&self) -> (&str, SpanKind, &str) {
        (&self.service, self.span.kind(), &self.span.name)
    }

    pub(crate) fn attribute(&self, key: &str) -> Option<String> {
        attribute(&self.span.attributes, key)
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match &found.value {
        Some(AnyValue { value: Some(Value::StringValue(value)) }) => Some(value.clone()),
        _ => None,
    }
}

pub(crate) struct Collector {
    address: SocketAddr,
    store: Store,
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Vec<Received>>>);

impl Collector {
    /// Serves until the test's runtime ends.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let store = Store::default();
        let http = Router::new().route("/v1/traces", post(receive)).with_state(store.clone());
        let grpc = Routes::new(TraceServiceServer::new(store.clone())).into_axum_router();
        tokio::spawn(axum::serve(listener, http.merge(grpc)).into_future());
        Ok(Self { address, store })
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn into_spans(self) -> Vec<Received> {
        std::mem::take(&mut *self.store.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    fn add(&self, request: ExportTraceServiceRequest) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for resource_spans in request.resource_spans {
            let resource = resource_spans.resource.unwrap_or_default();
            let service = attribute(&resource.attributes, "service.name").unwrap_or_default();
            for span in resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                spans.push(Received { service: service.clone(), span });
            }
        }
    }
}

async fn receive(State(store): State<Store>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    store.add(ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?);
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

#[tonic::async_trait]
impl TraceService for Store {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.add(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
