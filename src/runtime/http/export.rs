//! The client for telemetry: bounded in time, without redirects.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError};
use url::Url;

use super::transport::{Outgoing, Progress, Transport};

/// For a whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct ExportClient {
    transport: Transport,
}

#[async_trait]
impl HttpClient for ExportClient {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string())?;
        let outgoing =
            Outgoing { method: head.method, url, headers: head.headers, body: body.into(), discard: false };
        let mut progress = Progress::default();
        let received =
            tokio::time::timeout(TIMEOUT, self.transport.exchange(&outgoing, &mut progress)).await??;
        let mut response = http::Response::new(received.body);
        *response.status_mut() = received.status;
        *response.headers_mut() = received.headers;
        Ok(response)
    }
}
