//! The transport beneath: one user's connections, on hyper, shared with nobody and kept from iteration to iteration.

mod connect;
mod pool;
pub(super) mod redirect;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use url::{Position, Url};

use super::error::TransportError;
use connect::{Channel, Connection, connect};
use pool::Pool;

/// What requests call themselves.
pub(super) const AGENT: &str = concat!("cargo-loadtest/", env!("CARGO_PKG_VERSION"));

/// Redirects that are followed, at most.
pub(super) const MOST_REDIRECTS: u32 = 10;

/// Room that a `content-length` alone makes for a body; what comes beyond it grows as it comes.
const MOST_RESERVED: u64 = 16 << 20;

/// The longest body that is read: a response without end takes the generator's memory from all users.
pub(super) const MOST_BODY: u64 = 64 << 20;

/// A request, before the headers that every request has.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
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

/// A user's own transport.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    pool: Pool,
    /// In place of what the platform trusts.
    trust: Option<Arc<ClientConfig>>,
}

impl Transport {
    /// Sends one request and reads one response.
    pub(super) async fn exchange(&self, outgoing: &Outgoing) -> Result<Received, TransportError> {
        loop {
            let (mut connection, kept) = match self.pool.take(&outgoing.url) {
                Some(connection) => (connection, true),
                // Boxed, because it is large and rare: every request would carry its room.
                None => (Box::pin(connect(&outgoing.url, self.trust.as_ref())).await?, false),
            };
            if let Err(error) = connection.ready().await {
                if kept {
                    continue;
                }
                return Err(TransportError::Exchange(error));
            }
            let request = request(outgoing, &connection)?;
            match connection.send(request).await {
                Ok(response) => return self.receive(outgoing, connection, response).await,
                // The server closed the connection while it waited here, and nothing was written: the request was not
                // sent, so sending it on another connection does not repeat it.
                Err(error) if kept && error.message().is_some() => {}
                Err(error) => return Err(TransportError::Exchange(error.into_error())),
            }
        }
    }

    async fn receive(
        &self,
        outgoing: &Outgoing,
        connection: Connection,
        response: http::Response<Incoming>,
    ) -> Result<Received, TransportError> {
        let (head, body) = response.into_parts();
        let (body, body_bytes) = if outgoing.discard {
            (Bytes::new(), discarded(body).await?)
        } else {
            let body = whole(body).await?;
            let length = body.len() as u64;
            (body, length)
        };
        self.pool.put(&outgoing.url, connection);
        let (status, version) = (head.status, head.version);
        Ok(Received { status, version, headers: head.headers, body, body_bytes })
    }
}

/// The request as it goes onto this connection. The author's headers stand in for the usual ones.
fn request(outgoing: &Outgoing, connection: &Connection) -> Result<connect::Request, TransportError> {
    let url = &outgoing.url;
    let mut headers = HeaderMap::with_capacity(outgoing.headers.len() + 5);
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let uri = match &connection.channel {
        Channel::Http1(_) => {
            headers.insert(HOST, connection.authority.clone());
            Uri::try_from(target)
        }
        Channel::Http2(_) => {
            let authority = &url[Position::BeforeHost..Position::AfterPort];
            Uri::try_from(format!("{}://{authority}{target}", url.scheme()))
        }
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
    for (name, value) in &outgoing.headers {
        headers.insert(name.clone(), value.clone());
    }
    let mut request = http::Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = uri.map_err(|_| TransportError::Unsendable)?;
    *request.headers_mut() = headers;
    Ok(request)
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

/// The whole body; where it comes in one piece, without copying it.
async fn whole(mut body: Incoming) -> Result<Bytes, TransportError> {
    let expected = body.size_hint().lower();
    if expected > MOST_BODY {
        return Err(TransportError::TooLarge);
    }
    let mut first = Bytes::new();
    while first.is_empty() {
        match body.frame().await {
            Some(frame) => first = data(frame)?,
            None => return Ok(first),
        }
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(expected.min(MOST_RESERVED) as usize);
    whole.extend_from_slice(&first);
    while let Some(frame) = body.frame().await {
        let more = data(frame)?;
        if (whole.len() + more.len()) as u64 > MOST_BODY {
            return Err(TransportError::TooLarge);
        }
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

/// Reads the body to its end and keeps nothing of it; how long it was.
async fn discarded(mut body: Incoming) -> Result<u64, TransportError> {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += data(frame)?.len() as u64;
    }
    Ok(length)
}

/// A frame's data; what is no data are trailers, which nothing asks for.
fn data(frame: hyper::Result<hyper::body::Frame<Bytes>>) -> Result<Bytes, TransportError> {
    Ok(frame.map_err(TransportError::Body)?.into_data().unwrap_or_default())
}
