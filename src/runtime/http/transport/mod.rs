//! The transport beneath: one user's connections, on hyper, shared with nobody and kept from iteration to iteration.

mod body;
mod connect;
mod driven;
mod http1;
mod http2;
mod payload;
mod pool;
mod progress;
pub(super) mod redirect;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Method, StatusCode, Uri, Version};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::error::TransportError;
use body::Body;
use connect::{Channel, Connection};
use pool::Pool;

pub(super) use body::MOST_BODY;
pub(super) use connect::Connector;
pub(super) use payload::Payload;
pub(super) use progress::Progress;
pub(super) use tls::{TlsConfigs, usual as usual_tls};

/// What requests call themselves.
pub(super) const AGENT: &str = concat!("cargo-loadtest/", env!("CARGO_PKG_VERSION"));

/// Redirects that are followed, at most.
pub(super) const MOST_REDIRECTS: u32 = 10;

/// How often one request is sent again, at most: a server that always closes is not asked for ever.
const MOST_RETRIES: u32 = 3;

/// What a connection of HTTP/1 is about, and none of HTTP/2 may be told.
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A request, before the headers that every request has.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Payload,
    /// Whether the response's body is read without being kept.
    pub(super) discard: bool,
}

/// A response with its whole body.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    /// Empty where it was discarded.
    pub(super) body: Bytes,
    /// How long the body was, as it came.
    pub(super) body_bytes: u64,
}

/// The head of an answer, or why there is none.
type Attempt<B> = Result<http::Response<B>, Failed>;

/// A request that was not answered, and what is certain of it.
#[derive(Debug)]
struct Failed {
    error: TransportError,
    /// The server has seen nothing of it, or says that it did nothing with it.
    is_unsent: bool,
    /// Nothing of an answer came.
    is_unanswered: bool,
    /// No other request may go onto the connection.
    ends_connection: bool,
}

/// A user's own transport.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    pool: Pool,
    connector: Arc<Connector>,
    /// Where its connections come from; `None`: where the system lets them.
    source: Option<IpAddr>,
}

impl Transport {
    /// The transport of the user with this number, from 1.
    pub(crate) fn new(connector: Arc<Connector>, user: u64) -> Self {
        let source = connector.source(user.saturating_sub(1));
        Self { pool: Pool::default(), connector, source }
    }

    /// Sends one request and reads one response. `progress` is of this request, and fresh.
    pub(super) async fn exchange(
        &self,
        outgoing: &Outgoing,
        progress: &mut Progress,
    ) -> Result<Received, TransportError> {
        loop {
            let (mut connection, is_kept) = self.connection(&outgoing.url, progress).await?;
            let request = request(outgoing, &connection, self.connector.keeps_connections())?;
            let attempt = match &mut connection.channel {
                Channel::Http1(sender) => {
                    sender.exchange(request, progress).await.map(|response| response.map(Body::Http1))
                }
                Channel::Http2(sender) => {
                    // Boxed, because it is large: every request over HTTP/1 would carry its room.
                    let answer = Box::pin(sender.exchange(request, progress)).await;
                    answer.map(|response| {
                        let announced = announced(response.headers());
                        response.map(|body| Body::Http2(body, announced))
                    })
                }
            };
            let failed = match attempt {
                Ok(response) => return self.receive(outgoing, connection, response).await,
                Err(failed) => failed,
            };
            if failed.ends_connection {
                self.pool.forget(&outgoing.url, &connection);
            }
            if progress.retries() == MOST_RETRIES || !may_repeat(&failed, &outgoing.method, is_kept) {
                return Err(failed.error);
            }
            progress.retry();
        }
    }

    /// One that was kept, or a new one; and whether it was kept.
    async fn connection(
        &self,
        url: &Url,
        progress: &mut Progress,
    ) -> Result<(Connection, bool), TransportError> {
        // What a server closed was perhaps not the only one: the next attempt had better begin anew.
        let is_first = progress.retries() == 0;
        if let Some(connection) = self.kept(url, is_first).await {
            progress.hand_at_once();
            return Ok((connection, true));
        }
        // Where requests can go onto one connection, one of them connects, and the others wait for it.
        let turn = self.pool.turn(url, self.connector.knows_http2() && self.connector.keeps_connections());
        let _turn = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        if turn.is_some()
            && let Some(connection) = self.kept(url, is_first).await
        {
            progress.hand();
            return Ok((connection, true));
        }
        // Boxed, because it is large and rare: every request would carry its room.
        let connection = Box::pin(self.connector.connect(url, self.source, progress)).await?;
        if self.connector.keeps_connections() {
            self.pool.share(url, &connection);
        }
        Ok((connection, false))
    }

    /// A kept connection that is not known to be closed. Of HTTP/1, only where `any` will do.
    async fn kept(&self, url: &Url, any: bool) -> Option<Connection> {
        while let Some(mut connection) = self.pool.take(url, any) {
            let ready = match &mut connection.channel {
                Channel::Http1(sender) => sender.ready().await,
                Channel::Http2(sender) => sender.ready().await,
            };
            if ready.is_ok() {
                return Some(connection);
            }
            self.pool.forget(url, &connection);
        }
        None
    }

    /// Not an `async fn`, whose future would have room for the response twice: whole, and in its parts.
    fn receive(
        &self,
        outgoing: &Outgoing,
        mut connection: Connection,
        response: http::Response<Body>,
    ) -> impl Future<Output = Result<Received, TransportError>> {
        let (http::response::Parts { status, version, headers, .. }, mut body) = response.into_parts();
        async move {
            let (body, body_bytes) = if outgoing.discard {
                (Bytes::new(), body.discarded(&mut connection.channel).await?)
            } else {
                let body = body.whole(&mut connection.channel).await?;
                let length = body.len() as u64;
                (body, length)
            };
            if self.connector.keeps_connections() {
                self.pool.put(&outgoing.url, connection);
            }
            Ok(Received { status, version, headers, body, body_bytes })
        }
    }
}

/// Whether a request may be sent again. What changes nothing on the server may, where a connection that was kept turns
/// out to have been closed meanwhile; everything else only where it is certain that the server did nothing with it.
fn may_repeat(failed: &Failed, method: &Method, is_kept: bool) -> bool {
    let is_http2 = matches!(failed.error, TransportError::Http2(_));
    let was_closed = is_kept && failed.is_unanswered && failed.ends_connection;
    failed.is_unsent && (is_kept || is_http2) || was_closed && method.is_safe()
}

fn announced(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    length.unwrap_or_default()
}

/// The request as it goes onto this connection. The author's headers stand in for the usual ones.
fn request(
    outgoing: &Outgoing,
    connection: &Connection,
    is_kept: bool,
) -> Result<http::Request<Payload>, TransportError> {
    let url = &outgoing.url;
    let mut headers = HeaderMap::with_capacity(outgoing.headers.len() + 5);
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let is_http2 = matches!(connection.channel, Channel::Http2(_));
    let uri = if is_http2 {
        let authority = outgoing.headers.get(HOST).unwrap_or(&connection.authority);
        let authority = authority.to_str().map_err(|_| TransportError::Unsendable)?;
        Uri::try_from(format!("{}://{authority}{target}", url.scheme()))
    } else {
        headers.insert(HOST, connection.authority.clone());
        if !is_kept {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Uri::try_from(target)
    };
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    if let Some(authorization) = user_information(url) {
        headers.insert(AUTHORIZATION, authorization);
    }
    let announces_body = matches!(outgoing.method, Method::POST | Method::PUT | Method::PATCH);
    if outgoing.body.is_empty() && announces_body {
        // Where a server may expect a body, RFC 9110 has its absence said; hyper says only lengths that are not 0.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    if is_http2 && !outgoing.body.is_empty() {
        headers.insert(CONTENT_LENGTH, outgoing.body.len().into());
    }
    for (name, value) in &outgoing.headers {
        if !is_http2 || *name != HOST && !is_of_connection(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
    let mut request = http::Request::new(outgoing.body.clone());
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = uri.map_err(|_| TransportError::Unsendable)?;
    *request.headers_mut() = headers;
    Ok(request)
}

fn is_of_connection(name: &HeaderName) -> bool {
    OF_CONNECTION.contains(&name.as_str())
}

/// User name and password of a URL, as the header that they are sent in.
fn user_information(url: &Url) -> Option<HeaderValue> {
    let (user, password) = (url.username(), url.password());
    if user.is_empty() && password.is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(user).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(password.unwrap_or_default()));
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    HeaderValue::from_str(&format!("Basic {encoded}")).ok()
}
