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
    use super::headers;

    #[test]
    fn headers_are_read_as_the_specification_writes_them() {
        let read = headers("api-key=a%20b=, x = 1 ,,nonsense,bad name=1,Tenant=%E4");
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(read, [("api-key", "a b="), ("x", "1")]);
    }
}
