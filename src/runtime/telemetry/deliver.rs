//! Requests that are encoded already, to one path of an OTLP/HTTP receiver.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use opentelemetry_http::HttpClient as _;
use percent_encoding::percent_decode_str;

use crate::runtime::http::ExportClient;
use crate::sys::{clock, env};

/// Pauses before what was not taken is sent again, as the exporters of OpenTelemetry make them.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];
/// Nothing is sent again later than this.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Delivery {
    client: ExportClient,
    url: String,
    headers: HeaderMap,
}

impl Delivery {
    /// To `url`, with the headers that the environment asks for; `signal` is as in `OTEL_EXPORTER_OTLP_TRACES_HEADERS`.
    pub(super) fn new(url: String, signal: &str) -> Self {
        let own = env::var(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS"));
        let asked_for = own.or_else(|| env::var("OTEL_EXPORTER_OTLP_HEADERS"));
        let mut headers = headers(&asked_for.unwrap_or_default());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Self { client: ExportClient::default(), url, headers }
    }

    /// Sends a request, and again where that can help; the answer, if it was taken.
    pub(super) async fn send(&self, body: &Bytes) -> Option<Bytes> {
        let until = clock::now() + PATIENCE;
        let mut pauses = PAUSES.into_iter();
        loop {
            match self.send_once(body.clone()).await {
                Ok(answer) => return Some(answer),
                Err(MayPass(false)) => return None,
                Err(MayPass(true)) => {}
            }
            let pause = pauses.next().filter(|pause| clock::now() + *pause < until)?;
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, body: Bytes) -> Result<Bytes, MayPass> {
        let mut request = Request::post(&self.url).body(body).map_err(|_| MayPass(false))?;
        request.headers_mut().clone_from(&self.headers);
        let response = self.client.send_bytes(request).await.map_err(|_| MayPass(true))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        // The statuses that the specification of OTLP has sent again.
        Err(MayPass(matches!(
            response.status(),
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        )))
    }
}

/// Whether the same request may be taken later.
struct MayPass(bool);

/// The headers in `key=value,…`, the values percent-encoded. What is no header is left out, as everywhere.
fn headers(text: &str) -> HeaderMap {
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, HeaderValue::from_str(&value).ok()?))
    };
    text.split(',').filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Answers one request on each connection, with these statuses in turn; in the end, the requests.
    fn server(statuses: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let answer = move |status: &u16| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"spans") {
                let mut some = [0; 1024];
                let read = stream.read(&mut some).unwrap();
                assert_ne!(read, 0, "the request was cut off");
                request.extend_from_slice(&some[..read]);
            }
            let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: 5\r\n\r\n");
            stream.write_all(format!("{head}taken").as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        };
        (url, std::thread::spawn(move || statuses.iter().map(answer).collect()))
    }

    #[test]
    fn what_may_be_taken_later_is_sent_again_as_it_was_and_nothing_else_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (statuses, taken) in [(&[503, 200][..], true), (&[400], false), (&[429, 404], false)] {
            let (url, answered) = server(statuses);
            let delivery = Delivery::new(url, "TRACES");
            let answer = runtime.block_on(delivery.send(&Bytes::from_static(b"spans")));
            assert_eq!(answer.as_deref(), taken.then_some(&b"taken"[..]), "{statuses:?}");
            for request in answered.join().unwrap() {
                assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{request}");
                assert!(request.contains("content-type: application/x-protobuf\r\n"), "{request}");
            }
        }
    }

    #[test]
    fn headers_are_read_as_the_specification_writes_them() {
        let read = headers("api-key=a%20b=, x = 1 ,,nonsense,bad name=1,Tenant=%E4");
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(read, [("api-key", "a b="), ("x", "1")]);
    }
}
