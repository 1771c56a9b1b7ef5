//! New connections: addresses, TCP, TLS, and the HTTP version that both ends speak.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use super::driven::Driven;
use super::http2;
use super::progress::Progress;
use super::tls;
use super::wire::{Marks, Wire};
use crate::model::http::{HttpSettings, HttpVersion, is_generators_own};
use crate::model::phases::HttpPhase;
use crate::runtime::http::error::TransportError;

/// A connection's near end. Of HTTP/1, the far end is driven by whoever waits for something on it; of HTTP/2, it is a task
/// on this thread's runtime, which ends with it.
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

/// How connections are made: the same for all users of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Connector {
    settings: HttpSettings,
    /// In place of one that trusts what the platform trusts.
    tls: Option<Arc<ClientConfig>>,
    /// In place of the URL's host.
    server_name: Option<ServerName<'static>>,
}

impl Connector {
    pub(in crate::runtime::http) fn new(
        settings: HttpSettings,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, String> {
        if cfg!(not(unix)) && settings.unix_socket.is_some() {
            return Err("unix-socket: this system has no Unix sockets".into());
        }
        let server_name = settings.server_name.as_ref().map(|name| {
            ServerName::try_from(name.clone()).map_err(|error| format!("server-name: `{name}`: {error}"))
        });
        Ok(Self { server_name: server_name.transpose()?, settings, tls })
    }

    /// Whether every connection takes requests beside each other.
    pub(super) fn knows_http2(&self) -> bool {
        self.version() == HttpVersion::Http2PriorKnowledge
    }

    /// Whether a connection is kept for the next request.
    pub(super) fn keeps_connections(&self) -> bool {
        self.settings.connection_reuse != Some(false)
    }

    /// Where the `n`-th user's connections come from; `None`: where the system lets them.
    pub(super) fn source(&self, n: u64) -> Option<IpAddr> {
        self.settings.source_ips.as_ref().map(|source| source.nth(n))
    }

    /// How many addresses connections come from; where the system chooses, it has one for each target.
    pub(in crate::runtime::http) fn sources(&self) -> u64 {
        let given = self.settings.source_ips.as_ref();
        given.map_or(1, |source| u64::try_from(source.count()).unwrap_or(u64::MAX))
    }

    /// Tells another client what it can be told: nothing of TLS, nor of HTTP/2, which are features of its own.
    pub(in crate::runtime::http) fn apply_to(
        &self,
        client: reqwest::ClientBuilder,
        user: u64,
    ) -> reqwest::ClientBuilder {
        let mut client = client.local_address(self.source(user.saturating_sub(1)));
        if self.version() == HttpVersion::Http1 {
            client = client.http1_only();
        }
        if !self.keeps_connections() {
            client = client.pool_max_idle_per_host(0);
        }
        if let Some(at_most) = self.settings.connect_timeout {
            client = client.connect_timeout(at_most);
        }
        #[cfg(unix)]
        if let Some(path) = &self.settings.unix_socket {
            client = client.unix_socket(path.clone());
        }
        client
    }

    fn version(&self) -> HttpVersion {
        self.settings.version.unwrap_or_default()
    }

    /// Connects to the host of `url`.
    pub(super) async fn connect(
        &self,
        url: &Url,
        source: Option<IpAddr>,
        progress: &mut Progress,
    ) -> Result<Connection, TransportError> {
        let connecting = self.connect_in_time(url, source, progress);
        match self.settings.connect_timeout {
            None => connecting.await,
            Some(at_most) => tokio::time::timeout(at_most, connecting)
                .await
                .unwrap_or(Err(TransportError::ConnectTimeout { after: at_most })),
        }
    }

    async fn connect_in_time(
        &self,
        url: &Url,
        source: Option<IpAddr>,
        progress: &mut Progress,
    ) -> Result<Connection, TransportError> {
        #[cfg(unix)]
        if let Some(path) = &self.settings.unix_socket {
            progress.enter(HttpPhase::Connecting);
            let stream = tokio::net::UnixStream::connect(path)
                .await
                .map_err(|source| TransportError::Connect { address: path.display().to_string(), source })?;
            return self.speak(stream, url, progress).await;
        }
        let addresses = self.addresses(url, progress).await?;
        progress.enter(HttpPhase::Connecting);
        let stream = dial(url, &addresses, source).await?;
        self.speak(stream, url, progress).await
    }

    /// The addresses of the host, looked up where they are not known.
    async fn addresses(&self, url: &Url, progress: &mut Progress) -> Result<Vec<SocketAddr>, TransportError> {
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        if let Some(given) = self.settings.resolve.iter().find(|given| given.fits(host, port)) {
            let addresses = given.addresses().iter().map(|address| (*address, port).into());
            return Ok(addresses.collect());
        }
        match url.host() {
            Some(Host::Ipv4(address)) => Ok(vec![(address, port).into()]),
            Some(Host::Ipv6(address)) => Ok(vec![(address, port).into()]),
            _ => {
                progress.enter(HttpPhase::Dns);
                let addresses = lookup_host((host, port)).await;
                let failed = |source| TransportError::Dns { host: host.to_owned(), source };
                addresses.map(Iterator::collect).map_err(failed)
            }
        }
    }

    /// Agrees with the server on TLS and a version of HTTP.
    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        url: &Url,
        progress: &mut Progress,
    ) -> Result<Connection, TransportError> {
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let authority = HeaderValue::from_str(authority).map_err(|_| TransportError::Unsendable)?;
        let channel = if url.scheme() == "https" {
            progress.enter(HttpPhase::Tls);
            let stream = self.secure(url, stream).await?;
            let is_agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            if self.speaks_http2(is_agreed) { http2_over(stream).await? } else { http1_over(stream).await? }
        } else if self.speaks_http2(false) {
            http2_over(stream).await?
        } else {
            http1_over(stream).await?
        };
        progress.hand();
        Ok(Connection { channel, authority })
    }

    fn speaks_http2(&self, is_agreed: bool) -> bool {
        match self.version() {
            HttpVersion::Negotiated => is_agreed,
            HttpVersion::Http1 => false,
            HttpVersion::Http2PriorKnowledge => true,
        }
    }

    async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        url: &Url,
        stream: S,
    ) -> Result<TlsStream<S>, TransportError> {
        let host = url.host_str().unwrap_or_default();
        let config = match &self.tls {
            Some(config) => config,
            None => tls::usual(self.version()).map_err(TransportError::Trust)?,
        };
        let refused = |source| TransportError::Tls { host: host.to_owned(), source };
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
                .map_err(|error| refused(io::Error::other(error)))?,
        };
        TlsConnector::from(config.clone()).connect(name, stream).await.map_err(refused)
    }
}

/// Tries the addresses in order, those alone that can be reached from where it comes. Of what went wrong the most telling
/// is told, the last one of several.
async fn dial(
    url: &Url,
    addresses: &[SocketAddr],
    from: Option<IpAddr>,
) -> Result<TcpStream, TransportError> {
    let mut told: Option<TransportError> = None;
    let is_of_family = |address: &&SocketAddr| from.is_none_or(|from| from.is_ipv4() == address.is_ipv4());
    for address in addresses.iter().filter(is_of_family) {
        match dial_one(*address, from).await {
            Ok(stream) => return Ok(stream),
            Err(error) if told.as_ref().is_some_and(|told| says(told) > says(&error)) => {}
            Err(error) => told = Some(error),
        }
    }
    Err(told.unwrap_or_else(|| match (addresses.first(), from) {
        (Some(address), Some(from)) => {
            let other = format!("{} is not of the same family", address.ip());
            let source = io::Error::new(io::ErrorKind::AddrNotAvailable, other);
            TransportError::Source { address: from, source }
        }
        _ => TransportError::Dns {
            host: url.host_str().unwrap_or_default().to_owned(),
            source: io::Error::other("the name has no address"),
        },
    }))
}

/// How much an error says of the server: most where the server itself answered, nothing where the generator could not ask.
fn says(error: &TransportError) -> u8 {
    match error.class() {
        "connect_refused" | "reset" => 3,
        "connect_timeout" => 2,
        class if is_generators_own(class) => 0,
        _ => 1,
    }
}

async fn dial_one(address: SocketAddr, from: Option<IpAddr>) -> Result<TcpStream, TransportError> {
    let failed = |source| TransportError::Connect { address: address.to_string(), source };
    let stream = match from {
        None => TcpStream::connect(address).await.map_err(failed)?,
        Some(from) => {
            let cannot = |source| TransportError::Source { address: from, source };
            let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
            let socket = socket.map_err(failed)?;
            socket.bind((from, 0).into()).map_err(cannot)?;
            socket.connect(address).await.map_err(failed)?
        }
    };
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

async fn http1_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Channel, TransportError> {
    let marks = Marks::new();
    let stream = TokioIo::new(Wire::new(stream, marks.clone()));
    let (sender, connection) = http1::handshake(stream).await.map_err(TransportError::Exchange)?;
    Ok(Channel::Http1(super::http1::Sender::new(sender, Driven::new(connection), marks)))
}

async fn http2_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Channel, TransportError> {
    http2::over(stream).await.map(Channel::Http2).map_err(TransportError::Http2)
}
