//! New connections: addresses, TCP, TLS, and the HTTP version that both ends speak.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::http2;
use super::progress::Progress;
use super::tls;
use super::wire::{Marks, Wire};
use crate::model::http::HttpVersion;
use crate::runtime::http::error::TransportError;
use crate::sys::clock;

/// A connection's near end; the far end is a task on this thread's runtime, which ends with it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) channel: Channel,
    /// `host` or `host:port`, as requests on this connection say it.
    pub(super) authority: HeaderValue,
}

#[derive(Debug)]
pub(super) enum Channel {
    Http1(super::http1::Sender),
    Http2(http2::Sender),
}

/// How connections are made.
#[derive(Debug, Default)]
pub(super) struct Connector {
    /// In place of what the platform trusts.
    pub(super) trust: Option<Arc<ClientConfig>>,
    pub(super) version: HttpVersion,
}

impl Connector {
    /// Connects to the host of `url`: its addresses are tried in order, and the last one's error is told.
    pub(super) async fn connect(
        &self,
        url: &Url,
        progress: &mut Progress,
    ) -> Result<Connection, TransportError> {
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let authority = HeaderValue::from_str(authority).map_err(|_| TransportError::Unsendable)?;
        let mut clock = Laps::begin();
        let addresses = addresses(url).await?;
        let dns = if matches!(url.host(), Some(Host::Domain(_))) { clock.lap() } else { Duration::ZERO };
        let stream = dial(url, addresses).await?;
        let connecting = clock.lap();
        let (channel, tls) = if url.scheme() == "https" {
            let stream = self.secure(url, stream).await?;
            let tls = clock.lap();
            let agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            (
                if self.speaks_http2(agreed) {
                    http2_over(stream).await?
                } else {
                    http1_over(stream).await?
                },
                tls,
            )
        } else if self.speaks_http2(false) {
            (http2_over(stream).await?, Duration::ZERO)
        } else {
            (http1_over(stream).await?, Duration::ZERO)
        };
        progress.connected(dns, connecting, tls);
        progress.hand(clock.last);
        Ok(Connection { channel, authority })
    }

    /// Whether every connection takes requests beside each other.
    pub(super) fn knows_http2(&self) -> bool {
        self.version == HttpVersion::Http2PriorKnowledge
    }

    fn speaks_http2(&self, agreed: bool) -> bool {
        match self.version {
            HttpVersion::Negotiated => agreed,
            HttpVersion::Http1 => false,
            HttpVersion::Http2PriorKnowledge => true,
        }
    }

    async fn secure(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, TransportError> {
        let host = url.host_str().unwrap_or_default();
        let config = match &self.trust {
            Some(config) => config,
            None => tls::shared().map_err(TransportError::Trust)?,
        };
        let refused = |source| TransportError::Tls { host: host.to_owned(), source };
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|error| refused(io::Error::other(error)))?;
        TlsConnector::from(config.clone()).connect(name, stream).await.map_err(refused)
    }
}

/// Tells the time between one call and the next.
struct Laps {
    last: Instant,
}

impl Laps {
    fn begin() -> Self {
        Self { last: clock::now() }
    }

    fn lap(&mut self) -> Duration {
        let now = clock::now();
        let lap = now.saturating_duration_since(self.last);
        self.last = now;
        lap
    }
}

async fn addresses(url: &Url) -> Result<Vec<SocketAddr>, TransportError> {
    let port = url.port_or_known_default().unwrap_or_default();
    let host = match url.host() {
        Some(Host::Ipv4(address)) => return Ok(vec![(address, port).into()]),
        Some(Host::Ipv6(address)) => return Ok(vec![(address, port).into()]),
        host => host.map(|host| host.to_string()).unwrap_or_default(),
    };
    let found = lookup_host((host.as_str(), port)).await;
    found.map(Iterator::collect).map_err(|source| TransportError::Dns { host, source })
}

async fn dial(url: &Url, addresses: Vec<SocketAddr>) -> Result<TcpStream, TransportError> {
    let mut last = None;
    for address in addresses {
        match dial_one(address).await {
            Ok(stream) => return Ok(stream),
            Err(source) => last = Some(TransportError::Connect { address, source }),
        }
    }
    Err(last.unwrap_or_else(|| TransportError::Dns {
        host: url.host_str().unwrap_or_default().to_owned(),
        source: io::Error::other("the name has no address"),
    }))
}

async fn dial_one(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn http1_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Channel, TransportError> {
    let marks = Marks::new();
    let stream = TokioIo::new(Wire::new(stream, marks.clone()));
    let (sender, connection) = http1::handshake(stream).await.map_err(TransportError::Exchange)?;
    tokio::spawn(async move {
        // Whoever waits for a response is told the error too.
        let _ = connection.await;
    });
    Ok(Channel::Http1(super::http1::Sender::new(sender, marks)))
}

async fn http2_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Channel, TransportError> {
    http2::over(stream).await.map(Channel::Http2).map_err(TransportError::Http2)
}
