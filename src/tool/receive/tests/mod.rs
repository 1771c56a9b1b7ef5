//! The receiver as its clients see it: over sockets, with the clients that occur in the wild.

mod forward;
mod grpc;
mod http;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderName, StatusCode};
use axum::Router;
use axum::extract::Request;
use bytes::Bytes;
use prost::Message as _;

use super::decode::tests::{foreign, iteration, of_scenario, of_service, prefix, proto, run};
use super::forward::ForwardOptions;
use super::signal::Signal;
use super::store::{CompletedTrace, QUIET};
use super::{Options, Receiver, ReceiverCounts, STORE_BYTES};
use crate::sys::clock;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
const PATIENCE: Duration = Duration::from_secs(20);

fn start() -> Receiver {
    start_with(None)
}

fn start_with(forward: Option<ForwardOptions>) -> Receiver {
    Receiver::start(Options {
        port: None,
        run: run(),
        trace_prefix: prefix(),
        store_bytes: STORE_BYTES,
        quiet: QUIET,
        forward,
    })
    .unwrap()
}

fn client() -> reqwest::Client {
    builder().build().unwrap()
}

fn builder() -> reqwest::ClientBuilder {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn finished(receiver: &Receiver) -> Vec<CompletedTrace> {
    let mut traces = Vec::new();
    receiver.finish(|trace| traces.push(trace));
    traces.sort_by_key(|trace| trace.id);
    traces
}

/// Stops a receiver whose clients or whose target are on the test's own thread, which must go on for that.
async fn stopped(receiver: Receiver) -> ReceiverCounts {
    tokio::task::spawn_blocking(move || receiver.stop(PATIENCE)).await.unwrap()
}

/// Waits until `holds`, and fails when it does not in a long time.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = clock::now() + PATIENCE;
    while !holds() {
        assert!(clock::now() < deadline, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends protobuf over HTTP and answers the status.
async fn post(receiver: &Receiver, signal: Signal, body: impl Into<reqwest::Body>) -> StatusCode {
    let url = format!("{}{}", receiver.endpoint(), signal.http_path());
    client().post(url).header(CONTENT_TYPE, PROTOBUF).body(body).send().await.unwrap().status()
}

/// What a server that plays the target of forwarding was sent.
type Captured = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// Serves answers one after the other, the last one again and again, and keeps what it was sent.
async fn capture(answers: Vec<(StatusCode, Vec<(HeaderName, &'static str)>)>) -> (SocketAddr, Captured) {
    let captured = Captured::default();
    let keep = captured.clone();
    let handler = move |request: Request| {
        let (keep, answers) = (keep.clone(), answers.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let mut kept = keep.lock().unwrap();
            let (status, headers) = answers[kept.len().min(answers.len() - 1)].clone();
            kept.push((parts.uri.path().to_owned(), parts.headers, body));
            let headers: HeaderMap =
                headers.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect();
            (status, headers)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    (address, captured)
}
