//! Exchanges with servers that answer by script.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_http::HttpClient as _;
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::model::http::{HttpSettings, HttpVersion};
use crate::model::phases::{HttpPhase, PhaseTimes};
use crate::runtime::http::ExportClient;
use crate::sys::clock;

mod connecting;
mod exchanges;
mod http2;
mod phases;
mod retries;

impl Transport {
    async fn send(&self, outgoing: &Outgoing) -> Result<Received, TransportError> {
        self.exchange(outgoing, &mut Progress::default()).await
    }

    /// What came, what it took, and how often it was sent again.
    async fn timed(&self, outgoing: &Outgoing) -> (Result<Received, TransportError>, PhaseTimes, u32) {
        let (mut progress, began) = (Progress::default(), clock::now());
        let ended = self.exchange(outgoing, &mut progress).await;
        (ended, progress.phases(began, clock::now()), progress.retries())
    }
}

fn connecting(settings: HttpSettings) -> Transport {
    let tls = TlsConfigs::default().of(&settings).unwrap();
    Transport::new(Arc::new(Connector::new(settings, tls).unwrap()), 1)
}

fn trusting(trust: Arc<ClientConfig>) -> Transport {
    Transport::new(Arc::new(Connector::new(HttpSettings::default(), Some(trust)).unwrap()), 1)
}

/// A request as a server saw it.
#[derive(Debug, Clone)]
struct Seen {
    connection: usize,
    /// Method, target and headers, in lower case.
    head: String,
    body: String,
}

impl Seen {
    fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }
}

/// What to write, and whether the connection stays open then. Nothing to write: it is closed without an answer.
type Answer = (Vec<u8>, bool);

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// Listens, and lets each connection be served, given its number; tells where, and how many came so far.
async fn each_connection<F>(
    serve: impl Fn(TcpStream, usize) -> F + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, count.fetch_add(1, Ordering::Relaxed)));
        }
    });
    (address, accepted)
}

impl Server {
    async fn start(answer: fn(&Seen) -> Answer) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let serve = move |stream, connection| serve(stream, connection, answer, noted.clone());
        Self { address: each_connection(serve).await.0, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn connections(&self) -> Vec<usize> {
        self.seen().iter().map(|seen| seen.connection).collect()
    }

    fn request(&self, method: Method, target: &str) -> Outgoing {
        request_to(method, &format!("http://{}{target}", self.address))
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    answer: fn(&Seen) -> Answer,
    noted: Arc<Mutex<Vec<Seen>>>,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let seen = Seen { connection, head, body };
        let (bytes, stays) = answer(&seen);
        noted.lock().unwrap().push(seen);
        if bytes.is_empty() || stream.write_all(&bytes).await.is_err() || !stays {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

fn request_to(method: Method, url: &str) -> Outgoing {
    let (url, headers) = (url.parse().unwrap(), HeaderMap::new());
    Outgoing { method, url, headers, body: Payload::default(), discard: false }
}

fn ok(_: &Seen) -> Answer {
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec(), true)
}

/// A TLS server's end for 127.0.0.1 that offers these protocols, and a configuration that trusts it.
fn certified(protocols: &[&[u8]]) -> (TlsAcceptor, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let certificate = made.cert.der().clone();
    let mut config = rustls::ServerConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let trusting = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (TlsAcceptor::from(Arc::new(config)), Arc::new(tls::finish(trusting, HttpVersion::Negotiated)))
}

async fn secure_server(protocols: &[&[u8]]) -> (SocketAddr, Arc<ClientConfig>) {
    let (acceptor, trust) = certified(protocols);
    (serve_secure(acceptor).await, trust)
}

async fn serve_secure(acceptor: TlsAcceptor) -> SocketAddr {
    let serve = move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                echo(stream, second).await;
            }
        }
    };
    each_connection(serve).await.0
}

/// Where a server takes `delay` for the handshake of its only connection, in HTTP/2 or not; and who trusts it.
async fn slow_to_shake_hands(second: bool, delay: Duration) -> (SocketAddr, Arc<ClientConfig>) {
    let (acceptor, trust) = certified(&[if second { &b"h2"[..] } else { b"http/1.1" }]);
    let serve = move |stream: TcpStream, _| {
        let acceptor = acceptor.clone();
        async move {
            // What the handshake still sends would keep the answer waiting.
            stream.set_nodelay(true).unwrap();
            tokio::time::sleep(delay).await;
            echo(acceptor.accept(stream).await.unwrap(), second).await;
        }
    };
    (each_connection(serve).await.0, trust)
}

/// Answers with the request's path, in the version that was agreed on.
async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, second: bool) {
    let path = service_fn(async |request: http::Request<Incoming>| {
        let path = request.uri().path().to_owned();
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(path))))
    });
    // A client that goes away is no error here.
    if second {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), path)
            .await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), path).await;
    }
}
