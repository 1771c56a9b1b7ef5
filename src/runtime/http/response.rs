//! Responses.

use bytes::Bytes;
use http::HeaderMap;

use super::error::RequestError;
use super::status::StatusSet;
use crate::runtime::error::Result;

/// A response whose whole body has been read.
#[derive(Debug, Clone)]
pub struct Response {
    pub(super) step: std::sync::Arc<str>,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The value of one header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The body as text.
    ///
    /// # Errors
    ///
    /// When the body is not UTF-8; the message says where.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).map_err(|error| {
            self.error(format!("the body is not UTF-8 (byte {} of {})", error.valid_up_to(), self.body.len()))
                .into()
        })
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    ///
    /// When the body is not JSON of that form; the message says where, with the status.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let why = without_values(&error.to_string());
            self.error(format!("status {}: the body is not the JSON that was expected: {why}", self.status))
                .into()
        })
    }

    /// Gives the response back when its status is one of these, and an error otherwise.
    ///
    /// This is an assertion of the scenario; what counts as a failed request is set on the request, with
    /// [`Request::expected_status`](super::Request::expected_status).
    ///
    /// # Errors
    ///
    /// When the status is another one; the message has the step and the status. It never has the body, which may
    /// hold secrets and would be stored with the results.
    pub fn expect_status(self, expected: impl Into<StatusSet>) -> Result<Self> {
        if expected.into().contains(self.status) {
            return Ok(self);
        }
        Err(self
            .error(format!("unexpected status {} (with a body of {} bytes)", self.status, self.body.len()))
            .into())
    }

    fn error(&self, why: String) -> RequestError {
        RequestError::Response { step: self.step.to_string(), why }
    }
}

/// serde's messages quote the value that they met, which may be a secret: what stands in double quotes is left out.
fn without_values(message: &str) -> String {
    let parts: Vec<&str> = message.split('"').collect();
    match (parts.first(), parts.last()) {
        (Some(first), Some(last)) if parts.len() > 2 => format!("{first}\"…\"{last}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &'static [u8]) -> Response {
        Response { step: "GET /x".into(), status, headers: HeaderMap::new(), body: Bytes::from_static(body) }
    }

    #[test]
    fn a_body_is_text_only_when_it_is_utf8() {
        assert_eq!(response(200, "ü".as_bytes()).text().unwrap(), "ü");
        let error = response(200, b"ab\xff").text().unwrap_err().to_string();
        assert_eq!(error, "GET /x: the body is not UTF-8 (byte 2 of 3)");
    }

    #[test]
    fn messages_say_what_is_wrong_and_never_quote_a_body() {
        let error = response(200, br#"{"a": "canary"}"#)
            .json::<std::collections::BTreeMap<String, u32>>()
            .unwrap_err();
        assert!(error.to_string().contains("invalid type: string"), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
        let error = response(500, b"canary").expect_status(200).unwrap_err().to_string();
        assert_eq!(error, "GET /x: unexpected status 500 (with a body of 6 bytes)");
        assert_eq!(response(204, b"").expect_status(200..=299).unwrap().status(), 204);
    }
}
