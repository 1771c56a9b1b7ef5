//! A server that answers as a test says, and remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(super) type Asked = http::Request<Bytes>;
pub(super) type Answer = http::Response<Bytes>;

/// Ends when dropped.
pub(super) struct Answering {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _stop: oneshot::Sender<()>,
}

impl Answering {
    pub(super) fn start(answer: fn(&Asked) -> Answer) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = asked.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, shared, answer) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, asked, _stop: stop }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests, in the order of their arrival.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, asked: Arc<Mutex<Vec<Asked>>>, answer: fn(&Asked) -> Answer) {
    while let Ok((stream, _)) = listener.accept().await {
        let asked = asked.clone();
        tokio::spawn(async move {
            let service = service_fn(async |request: http::Request<Incoming>| {
                let (head, body) = request.into_parts();
                let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                let request = http::Request::from_parts(head, whole);
                let answered = answer(&request).map(Full::new);
                asked.lock().unwrap().push(request);
                Ok::<_, Infallible>(answered)
            });
            // A client that goes away is no error here.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
