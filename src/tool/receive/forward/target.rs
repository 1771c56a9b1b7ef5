//! Another OTLP endpoint: how it is reached, over gRPC or HTTP, and how its answers are understood.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TE};
use reqwest::{Client, Response, Url};
use rustls_platform_verifier::BuilderVerifierExt;
use tonic::{Code, Status};

use super::super::redact;
use super::super::signal::{Message, Signal};
use super::{ForwardOptions, ForwardProtocol};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer longer than this is not read to its end; its connection is then closed.
const ANSWER_LIMIT: usize = 64 << 10;

/// Why nothing can be forwarded as configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("cannot forward to `{endpoint}`: write a URL that begins with http:// or https://")]
    Endpoint { endpoint: String },
    #[error("cannot forward to `{endpoint}`: this is the address of the receiver itself")]
    Loop { endpoint: String },
    #[error(
        "cannot forward with the header `{name}`: its name or its value has characters that headers cannot have"
    )]
    Header { name: String },
    #[error("cannot set up TLS for forwarding")]
    Tls(#[source] rustls::Error),
    #[error("cannot set up an HTTP client for forwarding")]
    Client(#[source] reqwest::Error),
    #[error("cannot start a thread for forwarding")]
    Thread(#[source] io::Error),
}

/// What came of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Taken,
    Refused,
    TryAgain { after: Option<Duration> },
}

const TRY_AGAIN: Delivery = Delivery::TryAgain { after: None };

#[derive(Debug)]
pub(super) struct Target {
    protocol: ForwardProtocol,
    endpoints: BTreeMap<Signal, (Url, HeaderMap)>,
    client: Client,
}

impl Target {
    pub(super) fn new(options: &ForwardOptions, ours: SocketAddr) -> Result<Self, ForwardError> {
        let mut endpoints = BTreeMap::new();
        for (&signal, endpoint) in &options.endpoints {
            let shown = || redact::text(&endpoint.url).into_owned();
            let mut url = Url::parse(&endpoint.url)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
                .ok_or_else(|| ForwardError::Endpoint { endpoint: shown() })?;
            if is_ours(&url, ours) {
                return Err(ForwardError::Loop { endpoint: shown() });
            }
            if options.protocol == ForwardProtocol::Grpc {
                url.set_path(signal.grpc_path());
                url.set_query(None);
            }
            endpoints.insert(signal, (url, header_map(&endpoint.headers)?));
        }
        let secure = endpoints.values().any(|(url, _)| url.scheme() == "https");
        let mut client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .tls_backend_preconfigured(tls(secure).map_err(ForwardError::Tls)?);
        if options.protocol == ForwardProtocol::Grpc {
            client = client.http2_prior_knowledge();
        }
        let client = client.build().map_err(ForwardError::Client)?;
        Ok(Self { protocol: options.protocol, endpoints, client })
    }

    pub(super) fn takes(&self, signal: Signal) -> bool {
        self.endpoints.contains_key(&signal)
    }

    pub(super) async fn send(&self, message: &Message) -> Delivery {
        let Some((url, headers)) = self.endpoints.get(&message.signal) else { return Delivery::Refused };
        let request = self.client.post(url.clone()).headers(headers.clone());
        let request = match self.protocol {
            ForwardProtocol::Grpc => request
                .header(CONTENT_TYPE, "application/grpc")
                .header(TE, "trailers")
                .body(grpc_frame(&message.protobuf)),
            ForwardProtocol::Http => match &message.json {
                Some(json) => request.header(CONTENT_TYPE, "application/json").body(json.clone()),
                None => request.header(CONTENT_TYPE, "application/x-protobuf").body(message.protobuf.clone()),
            },
        };
        match (request.send().await, self.protocol) {
            (Err(_), _) => TRY_AGAIN,
            (Ok(response), ForwardProtocol::Grpc) => grpc_delivery(response).await,
            (Ok(response), ForwardProtocol::Http) => http_delivery(response).await,
        }
    }
}

fn header_map(headers: &BTreeMap<String, String>) -> Result<HeaderMap, ForwardError> {
    headers
        .iter()
        .map(|(name, value)| {
            let refused = || ForwardError::Header { name: name.clone() };
            let key: HeaderName = name.parse().map_err(|_| refused())?;
            let mut value: HeaderValue = value.parse().map_err(|_| refused())?;
            value.set_sensitive(true);
            Ok((key, value))
        })
        .collect()
}

/// Whether `url` leads to the receiver at `ours`, which listens on the loopback address only.
fn is_ours(url: &Url, ours: SocketAddr) -> bool {
    let Some(port) = url.port_or_known_default().filter(|&port| port == ours.port()) else { return false };
    let host = url.host_str().unwrap_or_default();
    let is_local = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => is_local(address),
        Err(_) => (host, port)
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.any(|address| is_local(address.ip()))),
    }
}

/// The platform's certificates are loaded only where they are needed.
fn tls(secure: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(if secure {
        config.with_platform_verifier()?.with_no_client_auth()
    } else {
        config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    })
}

/// A message as gRPC sends it: uncompressed (0), its length, itself.
fn grpc_frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    // The receiver takes no message that long.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

async fn http_delivery(mut response: Response) -> Delivery {
    let delivery = match response.status() {
        status if status.is_success() => Delivery::Taken,
        status if may_pass(status) => Delivery::TryAgain { after: retry_after(response.headers()) },
        _ => Delivery::Refused,
    };
    // A connection is used again only if its answer was read.
    let mut read = 0;
    while read < ANSWER_LIMIT
        && let Ok(Some(chunk)) = response.chunk().await
    {
        read += chunk.len();
    }
    delivery
}

/// The statuses that OTLP/HTTP has clients try again on.
fn may_pass(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

async fn grpc_delivery(response: Response) -> Delivery {
    match response.status() {
        StatusCode::OK => {}
        status if may_pass(status) => return TRY_AGAIN,
        _ => return Delivery::Refused,
    }
    let status = match Status::from_header_map(response.headers()) {
        Some(status) => Some(status),
        None => trailing_status(response).await,
    };
    let Some(status) = status else { return TRY_AGAIN };
    match status.code() {
        Code::Ok => Delivery::Taken,
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => TRY_AGAIN,
        // Only with details that say when.
        Code::ResourceExhausted if !status.details().is_empty() => TRY_AGAIN,
        _ => Delivery::Refused,
    }
}

/// Reads over the answer's message to the status behind it.
async fn trailing_status(response: Response) -> Option<Status> {
    let body = http::Response::<reqwest::Body>::from(response).into_body();
    let mut body: Pin<&mut reqwest::Body> = pin!(body);
    let mut read = 0;
    while read < ANSWER_LIMIT {
        let frame = poll_fn(|context| body.as_mut().poll_frame(context)).await?.ok()?;
        match frame.into_trailers() {
            Ok(trailers) => return Status::from_header_map(&trailers),
            Err(data) => read += data.data_ref().map_or(0, Bytes::len),
        }
    }
    None
}
