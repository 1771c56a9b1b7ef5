//! A client that begins a trace of its own for each request, as a load test does.

use std::time::Duration;

use anyhow::{Result, anyhow};
use axum::http::{Method, StatusCode, header, request::Builder};
use opentelemetry_http::{HttpClient as _, Request, hyper::HyperClient};
use serde::{Serialize, de::DeserializeOwned};

/// A request that was sent as sampled.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) trace_id: Vec<u8>,
    pub(crate) span_id: Vec<u8>,
    pub(crate) status: u16,
}

pub(crate) struct Client {
    http: HyperClient,
    base: String,
    pub(crate) sent: Vec<Sent>,
}

pub(crate) struct Answer {
    request: String,
    status: StatusCode,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(base: String) -> Self {
        let http = HyperClient::with_default_connector(Duration::from_secs(30), None);
        Self { http, base, sent: Vec::new() }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::GET, path), Vec::new()).await
    }

    pub(crate) async fn get_as(&mut self, access: &str, path: &str) -> Result<Answer> {
        self.send(bearer(self.request(Method::GET, path), access), Vec::new()).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &impl Serialize) -> Result<Answer> {
        self.send(self.request(Method::POST, path), serde_json::to_vec(body)?).await
    }

    pub(crate) async fn post_as(
        &mut self,
        access: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer> {
        self.send(bearer(self.request(Method::POST, path), access), serde_json::to_vec(body)?).await
    }

    /// Sends a request whose trace nobody is to record.
    pub(crate) async fn unsampled(&self, path: &str) -> Result<Answer> {
        let traceparent = format!("00-{:032x}-{:016x}-00", u128::MAX, u64::MAX);
        self.answer(self.request(Method::GET, path).header("traceparent", traceparent), Vec::new()).await
    }

    /// Sends a request that belongs to no trace, as a readiness probe does.
    pub(crate) async fn probe(&self, path: &str) -> Result<Answer> {
        self.answer(self.request(Method::GET, path), Vec::new()).await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let uri = format!("{}{path}", self.base);
        Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, "application/json")
    }

    async fn send(&mut self, request: Builder, body: Vec<u8>) -> Result<Answer> {
        let n = self.sent.len() as u64 + 1;
        let (trace_id, span_id) = (u128::from(n) << 64 | 0xb10_6000, n << 32);
        let traceparent = format!("00-{trace_id:032x}-{span_id:016x}-01");
        let answer = self.answer(request.header("traceparent", traceparent), body).await?;
        self.sent.push(Sent {
            trace_id: trace_id.to_be_bytes().into(),
            span_id: span_id.to_be_bytes().into(),
            status: answer.status.as_u16(),
        });
        Ok(answer)
    }

    async fn answer(&self, request: Builder, body: Vec<u8>) -> Result<Answer> {
        let request = request.body(body.into())?;
        let what = format!("{} {}", request.method(), request.uri().path());
        let response = self.http.send_bytes(request).await.map_err(|error| anyhow!("{what}: {error}"))?;
        Ok(Answer { request: what, status: response.status(), body: response.into_body().into() })
    }
}

fn bearer(request: Builder, access: &str) -> Builder {
    request.header(header::AUTHORIZATION, format!("Bearer {access}"))
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status.as_u16(), status, "{}: {body}", self.request);
        if status >= 400 {
            let problem: blog_api::Problem = self.json().expect("a problem is JSON");
            assert!(!problem.error.is_empty());
        }
        self
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}
