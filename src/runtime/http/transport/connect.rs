//! New connections: addresses, TCP, TLS, and the HTTP version that both ends speak.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::tls;
use crate::runtime::http::error::TransportError;

pub(super) type Request = http::Request<Full<Bytes>>;

/// A connection's near end; the far end is a task on this thread's runtime, which ends with it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) channel: Channel,
    /// `host` or `host:port`, as requests on this connection say it.
    pub(super) authority: HeaderValue,
}

#[derive(Debug)]
pub(super) enum Channel {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Waits until the request before is out of the way; an error when the connection is closed.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.channel {
            Channel::Http1(channel) => channel.ready().await,
            Channel::Http2(channel) => channel.ready().await,
        }
    }

    /// Sends a request; the error gives it back when nothing of it was written.
    pub(super) async fn send(
        &mut self,
        request: Request,
    ) -> Result<http::Response<Incoming>, TrySendError<Request>> {
        match &mut self.channel {
            Channel::Http1(channel) => channel.try_send_request(request).await,
            Channel::Http2(channel) => channel.try_send_request(request).await,
        }
    }
}

/// Connects to the host of `url`: its addresses are tried in order, and the last one's error is told.
///
/// `trust` stands in for the platform's certificates.
pub(super) async fn connect(
    url: &Url,
    trust: Option<&Arc<ClientConfig>>,
) -> Result<Connection, TransportError> {
    let host = url.host_str().unwrap_or_default();
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let authority = HeaderValue::from_str(authority).map_err(|_| TransportError::Unsendable)?;
    let stream = dial(url).await?;
    if url.scheme() != "https" {
        let channel = http1_over(stream).await.map_err(TransportError::Exchange)?;
        return Ok(Connection { channel, authority });
    }
    let config = match trust {
        Some(config) => config,
        None => tls::shared().map_err(TransportError::Trust)?,
    };
    let refused = |source| TransportError::Tls { host: host.to_owned(), source };
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| refused(io::Error::other(error)))?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await.map_err(refused)?;
    let channel = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2_over(stream).await
    } else {
        http1_over(stream).await
    };
    Ok(Connection { channel: channel.map_err(TransportError::Exchange)?, authority })
}

async fn dial(url: &Url) -> Result<TcpStream, TransportError> {
    let port = url.port_or_known_default().unwrap_or_default();
    match url.host() {
        Some(Host::Ipv4(address)) => dial_one((address, port).into()).await,
        Some(Host::Ipv6(address)) => dial_one((address, port).into()).await,
        host => {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            let unknown = |source| TransportError::Dns { host: host.clone(), source };
            let mut last = None;
            for address in lookup_host((host.as_str(), port)).await.map_err(unknown)? {
                match dial_one(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(|| unknown(io::Error::other("the name has no address"))))
        }
    }
}

async fn dial_one(address: SocketAddr) -> Result<TcpStream, TransportError> {
    let failed = |source| TransportError::Connect { address, source };
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

async fn http1_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> hyper::Result<Channel> {
    let (channel, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // Whoever waits for a response is told the error too.
        let _ = connection.await;
    });
    Ok(Channel::Http1(channel))
}

async fn http2_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> hyper::Result<Channel> {
    let (channel, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // Whoever waits for a response is told the error too.
        let _ = connection.await;
    });
    Ok(Channel::Http2(channel))
}
