//! The port: who may speak to it, how much at a time, and which request goes where.

mod grpc;
mod http;
mod limit;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::uri::Authority;
use ::http::{HeaderMap, Uri, header};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, post};
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::sys::clock;

use super::counts::{Counters, ReceiverCounts};
use super::decode::Decoder;
use super::forward::Queue;
use super::signal::{Message, Signal};
use super::store::SpanStore;
use super::wire::{self, Malformed};
#[cfg(test)]
pub(super) use http::RpcStatus;
use limit::InFlight;

/// The largest request, after decompression. (Others' defaults of 2 and 4 MiB are too small for large batches.)
pub(super) const MESSAGE_LIMIT: usize = 64 << 20;

/// How long a client may take to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long requests that are being answered may go on at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The spans and what decodes them, under one lock.
#[derive(Debug)]
pub(super) struct Ingest {
    pub(super) decoder: Decoder,
    pub(super) store: SpanStore,
}

/// What the handlers share.
#[derive(Debug)]
pub(super) struct Shared {
    ingest: Mutex<Ingest>,
    counters: Arc<Counters>,
    forward: Option<Queue>,
    in_flight: Arc<InFlight>,
}

impl Shared {
    pub(super) fn new(ingest: Ingest, counters: Arc<Counters>, forward: Option<Queue>) -> Self {
        Self { ingest: Mutex::new(ingest), counters, forward, in_flight: Arc::new(InFlight::default()) }
    }

    pub(super) fn ingest<R>(&self, act: impl FnOnce(&mut Ingest) -> R) -> R {
        act(&mut self.ingest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        let stored = self.ingest(|ingest| ingest.store.counts());
        ReceiverCounts {
            requests: self.counters.requests.get(),
            requests_refused: self.counters.refused.get(),
            requests_malformed: self.counters.malformed.get(),
            spans_kept: stored.kept,
            spans_foreign: self.counters.spans_foreign.get(),
            spans_malformed: self.counters.spans_malformed.get(),
            spans_refused: stored.refused,
            traces_refused: stored.traces_refused,
            spans_late: stored.late,
            forwarded: self.counters.forwarded.get(),
            forward_dropped: self.counters.forward_dropped.get(),
            forward_failed: self.counters.forward_failed.get(),
        }
    }

    /// Stores what is ours in a message and passes the whole on.
    fn accept(&self, message: Message) -> Result<(), Malformed> {
        if message.signal == Signal::Traces {
            let passed = self
                .ingest(|Ingest { decoder, store }| decoder.ingest(&message.protobuf, store, clock::now()))?;
            self.counters.spans_foreign.add(passed.foreign);
            self.counters.spans_malformed.add(passed.malformed);
        } else {
            wire::check(&message.protobuf)?;
        }
        if let Some(forward) = &self.forward {
            forward.offer(message);
        }
        Ok(())
    }
}

/// The way of the tool's own messages to the target that is forwarded to, beside those that come in.
#[derive(Debug, Clone)]
pub(crate) struct Outlet(Arc<Shared>);

impl Outlet {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Puts an export request with metrics into the queue, where metrics are forwarded. Never waits.
    pub(crate) fn metrics(&self, protobuf: Bytes) {
        if let Some(forward) = &self.0.forward {
            forward.offer(Message { signal: Signal::Metrics, protobuf, json: None });
        }
    }
}

/// Serves until `stop` is sent or dropped.
pub(super) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    port: u16,
    stop: oneshot::Receiver<()>,
) {
    let (stopping, stopped) = oneshot::channel();
    let serving = axum::serve(listener, router(shared, port)).with_graceful_shutdown(async move {
        let _ = stop.await;
        let _ = stopping.send(());
    });
    tokio::select! {
        _ = serving.into_future() => {}
        () = async {
            let _ = stopped.await;
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        } => {}
    }
}

fn router(shared: Arc<Shared>, port: u16) -> Router {
    let mut router = Router::new().fallback(any(http::not_found));
    for signal in Signal::ALL {
        let over_http = post(move |State(shared), request| http::export(shared, signal, request))
            .fallback(http::method_not_allowed);
        let over_grpc = post(move |State(shared), request| grpc::export(shared, signal, request))
            .fallback(http::method_not_allowed);
        router = router.route(signal.http_path(), over_http).route(signal.grpc_path(), over_grpc);
    }
    router.layer(middleware::from_fn_with_state((shared.clone(), port), admit)).with_state(shared)
}

/// Counts the request, turns away what was not meant for this port, and bounds its bytes and its time.
async fn admit(State((shared, port)): State<(Arc<Shared>, u16)>, request: Request, next: Next) -> Response {
    shared.counters.requests.add(1);
    let response = if is_for_us(request.uri(), request.headers(), port) {
        let kind = http::ErrorBody::of(request.headers());
        let request = request.map(|body| Body::from_stream(shared.in_flight.meter(body)));
        tokio::time::timeout(REQUEST_TIMEOUT, next.run(request))
            .await
            .unwrap_or_else(|_| kind.response(&http::Refusal::TooSlow))
    } else {
        http::ErrorBody::of(request.headers()).response(&http::Refusal::WrongHost)
    };
    if !response.status().is_success() || grpc::is_error(response.headers()) {
        shared.counters.refused.add(1);
    }
    response
}

/// Whether a request names this host by a loopback name or address and this port. A page in a browser that had its own
/// name resolve to this address names another host.
fn is_for_us(uri: &Uri, headers: &HeaderMap, port: u16) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
        (None, _) => None,
        (Some(_), Some(_)) => return false,
    };
    // HTTP/2 has `:authority`, which the server puts into the URI; a `Host` beside it must be ours, too.
    let mut named = uri.authority().into_iter().chain(host.as_ref()).peekable();
    named.peek().is_some() && named.all(|authority| is_loopback(authority, port))
}

fn is_loopback(authority: &Authority, port: u16) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    authority.port_u16() == Some(port)
        && (host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback()))
}

/// Listens on the loopback address: on `port`, or on a free one where that is taken or none is preferred.
pub(super) fn listen(port: Option<u16>) -> std::io::Result<(std::net::TcpListener, SocketAddr)> {
    let bind = |port| std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port));
    let listener = bind(port.unwrap_or(0)).or_else(|_| bind(0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use ::http::HeaderValue;

    use super::*;

    #[test]
    fn only_loopback_names_with_our_port_are_for_us() {
        for (authority, host, ours) in [
            (None, Some("127.0.0.1:4318"), true),
            (None, Some("127.1.2.3:4318"), true),
            (None, Some("localhost:4318"), true),
            (None, Some("LocalHost:4318"), true),
            (None, Some("[::1]:4318"), true),
            (Some("127.0.0.1:4318"), None, true),
            (Some("127.0.0.1:4318"), Some("127.0.0.1:4318"), true),
            (None, None, false),
            (None, Some(""), false),
            (None, Some("127.0.0.1"), false),
            (None, Some("127.0.0.1:80"), false),
            (None, Some("evil.example:4318"), false),
            (None, Some("localhost.evil.example:4318"), false),
            (None, Some("127.0.0.1.evil.example:4318"), false),
            (None, Some("10.0.0.1:4318"), false),
            (None, Some("evil.example@127.0.0.1:4318:4318"), false),
            (Some("evil.example:4318"), Some("127.0.0.1:4318"), false),
            (Some("127.0.0.1:4318"), Some("evil.example:4318"), false),
        ] {
            let uri = authority.map_or_else(
                || Uri::from_static("/v1/traces"),
                |authority| format!("http://{authority}/v1/traces").parse().unwrap(),
            );
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(header::HOST, HeaderValue::from_static(host));
            }
            assert_eq!(is_for_us(&uri, &headers, 4318), ours, "{authority:?} {host:?}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, HeaderValue::from_static("127.0.0.1:4318"));
        twice.append(header::HOST, HeaderValue::from_static("127.0.0.1:4318"));
        assert!(!is_for_us(&Uri::from_static("/"), &twice, 4318));
    }
}
