//! A client that begins a trace of its own for each request, as a load test does.

use anyhow::Result;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::{Serialize, de::DeserializeOwned};

/// A request that was sent as sampled.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) trace_id: Vec<u8>,
    pub(crate) span_id: Vec<u8>,
    pub(crate) status: u16,
}

pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    pub(crate) sent: Vec<Sent>,
}

pub(crate) struct Answer {
    request: String,
    status: StatusCode,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(base: String) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http, base, sent: Vec::new() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        let request = self.request(Method::GET, path);
        self.send(request).await
    }

    pub(crate) async fn get_as(&mut self, access: &str, path: &str) -> Result<Answer> {
        let request = self.request(Method::GET, path).bearer_auth(access);
        self.send(request).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &impl Serialize) -> Result<Answer> {
        let request = self.request(Method::POST, path).json(body);
        self.send(request).await
    }

    pub(crate) async fn post_as(
        &mut self,
        access: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer> {
        let request = self.request(Method::POST, path).bearer_auth(access).json(body);
        self.send(request).await
    }

    /// Sends a request whose trace nobody is to record.
    pub(crate) async fn unsampled(&self, path: &str) -> Result<Answer> {
        let traceparent = format!("00-{:032x}-{:016x}-00", u128::MAX, u64::MAX);
        answer(self.request(Method::GET, path).header("traceparent", traceparent)).await
    }

    /// Sends a request that belongs to no trace, as a readiness probe does.
    pub(crate) async fn probe(&self, path: &str) -> Result<Answer> {
        answer(self.request(Method::GET, path)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    async fn send(&mut self, request: RequestBuilder) -> Result<Answer> {
        let n = self.sent.len() as u64 + 1;
        let (trace_id, span_id) = (u128::from(n) << 64 | 0xb10_6000, n << 32);
        let traceparent = format!("00-{trace_id:032x}-{span_id:016x}-01");
        let answer = answer(request.header("traceparent", traceparent)).await?;
        self.sent.push(Sent {
            trace_id: trace_id.to_be_bytes().into(),
            span_id: span_id.to_be_bytes().into(),
            status: answer.status.as_u16(),
        });
        Ok(answer)
    }
}

async fn answer(request: RequestBuilder) -> Result<Answer> {
    let (http, request) = request.build_split();
    let request = request?;
    let what = format!("{} {}", request.method(), request.url().path());
    let response = http.execute(request).await?;
    Ok(Answer { request: what, status: response.status(), body: response.bytes().await?.into() })
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
