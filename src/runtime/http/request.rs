//! Requests: a builder that ends in `send`.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::error::{RequestError, TransportError};
use super::measured::Measured;
use super::response::Response;
use super::status::StatusSet;
use super::target::name_of;
use super::transport::redirect::{self, Redirect};
use super::transport::{MOST_REDIRECTS, Outgoing};
use crate::runtime::error::Result;
use crate::runtime::record::RequestEnd;
use crate::runtime::scenario::Vu;

/// How long a request may take, connecting and reading the body included, when nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request that is being built. It is measured under `METHOD template`, such as `GET /users/{id}`; nothing happens
/// before [`send`](Self::send).
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request<'v> {
    vu: &'v Vu,
    method: Method,
    template: String,
    name: Option<String>,
    path: Vec<(String, String)>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
    expected: StatusSet,
    /// The first thing that could not be built; `send` says it.
    invalid: Option<Box<RequestError>>,
}

impl<'v> Request<'v> {
    pub(crate) fn new(vu: &'v Vu, method: Method, template: &str) -> Self {
        Self {
            vu,
            method,
            template: template.to_owned(),
            name: None,
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: TIMEOUT,
            expected: StatusSet::default(),
            invalid: None,
        }
    }

    /// Fills in the placeholder `{key}` of the template, percent-encoded.
    pub fn path(mut self, key: &str, value: impl Display) -> Self {
        self.path.push((key.to_owned(), value.to_string()));
        self
    }

    /// Appends `key=value` to the query, percent-encoded. The query is never part of the name.
    pub fn query(mut self, key: &str, value: impl Display) -> Self {
        self.query.push((key.to_owned(), value.to_string()));
        self
    }

    /// Sets a header, in place of one of the same name.
    pub fn header(mut self, name: &str, value: impl AsRef<str>) -> Self {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|why| why.to_string());
        let value = HeaderValue::from_str(value.as_ref()).map_err(|why| why.to_string());
        match (header, value) {
            (Ok(name), Ok(value)) => {
                self.headers.insert(name, value);
            }
            (Err(why), _) | (_, Err(why)) => self.refuse("header", format!("`{name}`: {why}")),
        }
        self
    }

    /// `authorization: Bearer token`.
    pub fn bearer(self, token: impl Display) -> Self {
        self.header(AUTHORIZATION.as_str(), format!("Bearer {token}"))
    }

    /// `authorization: Basic …`, from a user name and a password.
    pub fn basic_auth(self, user: impl Display, password: impl Display) -> Self {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        self.header(AUTHORIZATION.as_str(), format!("Basic {encoded}"))
    }

    /// The body, as JSON, with its content type.
    pub fn json(mut self, body: &(impl serde::Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.typed_body("application/json", bytes.into()),
            Err(why) => {
                self.refuse("JSON body", why.to_string());
                self
            }
        }
    }

    /// The body, as a form (`application/x-www-form-urlencoded`), from pairs or a map.
    pub fn form<K: AsRef<str>, V: AsRef<str>>(self, pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let encoded = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.typed_body("application/x-www-form-urlencoded", encoded.into())
    }

    /// The body, as it is; a content type only where a header sets one.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// How long the request may take, from `send` to the last byte of the body. 60 s unless set.
    pub fn timeout(mut self, at_most: Duration) -> Self {
        self.timeout = at_most;
        self
    }

    /// The name that the request is measured under, in place of `METHOD template`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Which statuses are a success, in place of 200 to 399: what else comes counts as failed, and its latency is in no
    /// figure.
    pub fn expected_status(mut self, expected: impl Into<StatusSet>) -> Self {
        self.expected = expected.into();
        self
    }

    fn typed_body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        self.body = body;
        self
    }

    fn refuse(&mut self, what: &'static str, why: String) {
        self.invalid.get_or_insert_with(|| Box::new(RequestError::Invalid { what, why }));
    }

    /// Sends the request and reads the whole response. The clock runs from here to the last byte of the body.
    ///
    /// Any status is a response; see [`Response::expect_status`]. Up to ten redirects to the same host are followed; each
    /// is counted as a request of its own, under the same name. One to another host is not followed: it is the response.
    ///
    /// # Errors
    ///
    /// When the request could not be built (a placeholder is missing, there is no base URL), or when no whole response
    /// came: refused, reset, timed out, cut short. Only the latter count as requests.
    pub async fn send(mut self) -> Result<Response> {
        if let Some(invalid) = self.invalid.take() {
            return Err((*invalid).into());
        }
        let url = self.vu.target().url(&self.template, &self.path, &self.query).inspect_err(|error| {
            if error.is_configuration() {
                self.vu.note_misconfiguration(&error.to_string());
            }
        })?;
        let Self { vu, method, template, name, headers, body, timeout, expected, .. } = self;
        let template = name_of(&template);
        let mut outgoing = Outgoing { method: method.clone(), url, headers, body };
        let mut left = timeout;
        // Each hop of a redirect is a request like any other: counted in the same row, with a span of its own.
        let mut hop = 0;
        loop {
            let mut measured = Measured::begin(vu, &method, template, name.as_deref());
            if let Some(traceparent) = measured.announce(&outgoing, template, hop) {
                let value = HeaderValue::try_from(traceparent).expect("hexadecimal digits and dashes");
                outgoing.headers.insert(HeaderName::from_static("traceparent"), value);
            }
            let step = measured.name.to_string();
            let Some(ended) = vu.timer().within(left, vu.transport().exchange(&outgoing)).await else {
                measured.end(&RequestEnd::Error { class: "timeout", timed_out: true });
                return Err(RequestError::Timeout { step, after: timeout }.into());
            };
            let redirected = ended.map(|received| (redirect::follow(&mut outgoing, &received), received));
            let (redirect, received) = match redirected {
                Ok((Redirect::Followed, _)) if hop == MOST_REDIRECTS => Err(TransportError::TooManyRedirects),
                other => other,
            }
            .map_err(|source| {
                let class = source.class();
                measured.end(&RequestEnd::Error { class, timed_out: class == "connect_timeout" });
                RequestError::Transport { step, class, source }
            })?;
            let (status, body) = (received.status.as_u16(), received.body);
            // What the author expects is the last status; a redirect that is followed did what it should.
            let expected = redirect == Redirect::Followed || expected.contains(status);
            measured.head(status, received.version);
            let took =
                measured.end(&RequestEnd::Response { status, expected, bytes_received: body.len() as u64 });
            match redirect {
                Redirect::Followed => {
                    left = left.saturating_sub(took);
                    hop += 1;
                    continue;
                }
                Redirect::Refused { host } => vu.note_refused_redirect(&measured.name, &host),
                Redirect::None => {}
            }
            return Ok(Response { step: measured.name.clone(), status, headers: received.headers, body });
        }
    }
}
