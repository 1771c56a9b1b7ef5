//! An HTTP server that counts what it sees and misbehaves on demand: by path, on a free loopback port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a connection may be idle unless a request says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What makes the server misbehave.
const WORDS: [&str; 11] =
    ["idle", "moved", "circle", "away", "status", "delay", "big", "close", "drop", "short", "latin1"];

/// What the server has seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Requests whose head was read whole.
    pub(crate) requests: u64,
    /// Of those, by the status that was sent.
    pub(crate) status: BTreeMap<u16, u64>,
    /// Path and query of each request, counted.
    pub(crate) targets: BTreeMap<String, u64>,
    /// The `traceparent` headers, in the order of arrival.
    pub(crate) traceparents: Vec<String>,
    pub(crate) connections: u64,
    /// Bodies, as they came.
    pub(crate) bodies: Vec<String>,
}

/// The running server; it ends when dropped.
///
/// - `/status/N` answers N, `/delay/MS` answers 200 after MS milliseconds, `/big/BYTES` with as many bytes,
/// - `/close` answers and closes the connection without saying so, `/drop` closes without an answer,
/// - `/idle/MS` answers and closes a connection on which nothing comes for so long,
/// - `/short` announces ten bytes and sends three, `/latin1` sends a body that is no UTF-8,
/// - `/moved` redirects to `/`, `/circle` to itself, `/away` to `/` of this server by another name,
/// - anything else answers 200 `ok`.
///
/// Whatever stands before these words in the path is of no matter.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _stop: oneshot::Sender<()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = seen.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, seen, _stop: stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    while let Ok((stream, _)) = listener.accept().await {
        seen.lock().unwrap().connections += 1;
        tokio::spawn(serve(stream, seen.clone()));
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    let mut patience = PATIENCE;
    while let Ok(Some((head, body))) = timeout(patience, read_request(&mut stream, &mut buffer)).await {
        let target = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let header = |name: &str| {
            let line = head.lines().skip(1).find(|line| line.to_ascii_lowercase().starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        {
            let mut seen = seen.lock().unwrap();
            seen.requests += 1;
            *seen.targets.entry(target.clone()).or_default() += 1;
            seen.traceparents.extend(header("traceparent"));
            if !body.is_empty() {
                seen.bodies.push(body);
            }
        }
        let path = target.split('?').next().unwrap_or_default();
        let mut parts = path.split('/').skip_while(|part| !WORDS.contains(part));
        let (kind, value) =
            (parts.next().unwrap_or_default(), parts.next().and_then(|n| n.parse::<u64>().ok()));
        let (status, body, announced) = match (kind, value) {
            ("drop", _) => return,
            ("status", Some(status)) => (status as u16, b"status".to_vec(), None),
            ("delay", Some(millis)) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                (200, b"late".to_vec(), None)
            }
            ("idle", Some(millis)) => {
                patience = Duration::from_millis(millis);
                (200, b"ok".to_vec(), None)
            }
            ("big", Some(bytes)) => (200, vec![b'x'; bytes as usize], None),
            ("short", _) => (200, b"abc".to_vec(), Some(10)),
            ("moved" | "circle" | "away", _) => (302, b"moved".to_vec(), None),
            ("latin1", _) => (200, b"caf\xe9".to_vec(), None),
            _ => (200, b"ok".to_vec(), None),
        };
        *seen.lock().unwrap().status.entry(status).or_default() += 1;
        let length = announced.unwrap_or(body.len());
        let location = match kind {
            "moved" => "location: /\r\n".to_owned(),
            "circle" => "location: /circle\r\n".to_owned(),
            "away" => format!("location: http://localhost:{}/\r\n", stream.local_addr().unwrap().port()),
            _ => String::new(),
        };
        let head = format!("HTTP/1.1 {status} Status\r\n{location}content-length: {length}\r\n\r\n");
        if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
            return;
        }
        if announced.is_some() || kind == "close" {
            return;
        }
    }
}

/// A request's head, and its body by `content-length`.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned))
                .and_then(|value| value.trim().parse::<usize>().ok())
                .unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&buffer[end + 4..end + 4 + length]).into_owned();
                buffer.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        let mut bytes = [0; 16 * 1024];
        match stream.read(&mut bytes).await {
            Ok(n) if n > 0 => buffer.extend_from_slice(&bytes[..n]),
            _ => return None,
        }
    }
}
