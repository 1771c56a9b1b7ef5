//! Responses.

use bytes::Bytes;
use http::HeaderMap;
use http::header::SET_COOKIE;
use url::Url;

use super::error::RequestError;
use super::jar;
use super::status::StatusSet;
use super::timings::Timings;
use crate::runtime::error::Result;

/// A response whose whole body has been read.
#[derive(Debug, Clone)]
pub struct Response {
    pub(super) step: std::sync::Arc<str>,
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) discarded: bool,
    pub(super) timings: Timings,
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Where the response came from: the URL of the last hop, where redirects were followed.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// How long it took, and what of it which phase.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The value of one header, if it is there and is text; the first, where there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All values of one header that are text, in the order in which they came.
    pub fn header_all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// The names and values of the cookies that this response sets (the last hop's, where redirects were followed).
    /// What the user holds now is in [`Vu::cookies`](crate::Vu::cookies).
    pub fn cookies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.header_all(SET_COOKIE.as_str()).filter_map(jar::name_and_value)
    }

    /// The body; empty where it was [discarded](crate::Request::discard_body).
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The body as text.
    ///
    /// # Errors
    ///
    /// When the body is not UTF-8 (the message says where), or was discarded.
    pub fn text(&self) -> Result<&str> {
        self.must_have_body()?;
        std::str::from_utf8(&self.body).map_err(|error| {
            self.error(format!("the body is not UTF-8 (byte {} of {})", error.valid_up_to(), self.body.len()))
                .into()
        })
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    ///
    /// When the body is not JSON of that form (the message says where, with the status), or was discarded.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        self.must_have_body()?;
        serde_json::from_slice(&self.body)
            .map_err(|error| self.error(format!("status {}: {}", self.status, what_is_wrong(&error))).into())
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

    fn must_have_body(&self) -> Result<()> {
        if self.discarded {
            let why = "the body was discarded; call .keep_body() on the request to read it";
            return Err(self.error(why.to_owned()).into());
        }
        Ok(())
    }

    fn error(&self, why: String) -> RequestError {
        RequestError::Response { step: self.step.to_string(), why }
    }
}

/// What is wrong with a body. serde's own messages quote values that they met, which may be secrets: only its kind and
/// place are told, and which field is missing, since that name comes from the type.
fn what_is_wrong(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let place = format!("line {}, column {}", error.line(), error.column());
    match (error.classify(), missing_field(&error.to_string())) {
        (Category::Data, Some(field)) => format!("the body misses the field `{field}` ({place})"),
        (Category::Data, None) => format!("the body is JSON that does not fit the type ({place})"),
        (Category::Eof, _) => format!("the body ends before its JSON does ({place})"),
        (Category::Syntax | Category::Io, _) => format!("the body is not JSON ({place})"),
    }
}

fn missing_field(message: &str) -> Option<&str> {
    let (field, rest) = message.strip_prefix("missing field `")?.split_once('`')?;
    (rest.starts_with(" at line ") && !rest.contains('`')).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &'static [u8]) -> Response {
        Response {
            step: "GET /x".into(),
            url: Url::parse("http://127.0.0.1/x").unwrap(),
            status,
            headers: HeaderMap::new(),
            body: Bytes::from_static(body),
            discarded: false,
            timings: Timings::default(),
        }
    }

    #[test]
    fn a_body_is_text_only_when_it_is_utf8() {
        assert_eq!(response(200, "ü".as_bytes()).text().unwrap(), "ü");
        let error = response(200, b"ab\xff").text().unwrap_err().to_string();
        assert_eq!(error, "GET /x: the body is not UTF-8 (byte 2 of 3)");
    }

    #[test]
    fn a_message_says_the_kind_and_the_place_and_never_quotes_a_body() {
        #[derive(Debug, serde::Deserialize)]
        enum Colour {
            Red,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only read")]
        struct Form {
            colour: Option<Colour>,
            count: Option<u8>,
            text: Option<String>,
            needed: bool,
        }
        for (body, why) in [
            (r#"{"colour": "canary"}"#, "the body is JSON that does not fit the type (line 1, column 19)"),
            (r#"{"count": "canary"}"#, "the body is JSON that does not fit the type (line 1, column 18)"),
            (r#"{"count": 424242}"#, "the body is JSON that does not fit the type (line 1, column 16)"),
            (r#"{"text": 424242}"#, "the body is JSON that does not fit the type (line 1, column 15)"),
            (r#"{"canary": 1}"#, "the body is JSON that does not fit the type (line 1, column 9)"),
            (
                r#"{"missing field `canary` at line 1": 1}"#,
                "the body is JSON that does not fit the type (line 1, column 35)",
            ),
            (r#"{"text": "canary"}"#, "the body misses the field `needed` (line 1, column 18)"),
            ("{\n \"text\": canary}", "the body is not JSON (line 2, column 10)"),
            (r#"{"text": "canary"#, "the body ends before its JSON does (line 1, column 16)"),
        ] {
            let error = response(200, body.as_bytes()).json::<Form>().unwrap_err().to_string();
            assert_eq!(error, format!("GET /x: status 200: {why}"), "{body}");
        }
    }

    #[test]
    fn an_unexpected_status_is_told_without_the_body() {
        let error = response(500, b"canary").expect_status(200).unwrap_err().to_string();
        assert_eq!(error, "GET /x: unexpected status 500 (with a body of 6 bytes)");
        assert_eq!(response(204, b"").expect_status(200..=299).unwrap().status(), 204);
    }
}
