//! Requests: a builder that ends in `send`.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::compression;
use super::error::RequestError;
use super::multipart::{Form, Upload};
use super::response::Response;
use super::sending::Ready;
use super::status::StatusSet;
use super::transport::Outgoing;
use crate::model::tags::{self, Tags};
use crate::runtime::error::Result;
use crate::runtime::scenario::Vu;

/// How long a request may take, connecting and reading the body included, when nothing else is said.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

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
    /// In place of the body.
    upload: Option<Box<Upload>>,
    timeout: Duration,
    expected: Option<StatusSet>,
    max_redirects: Option<u32>,
    discard: Option<bool>,
    tags: Tags,
    accept_compressed: bool,
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
            upload: None,
            timeout: TIMEOUT,
            expected: None,
            max_redirects: None,
            discard: None,
            tags: Tags::default(),
            accept_compressed: vu.requests().accept_compressed,
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
        self.upload = None;
        self
    }

    /// The body: a file, as it is, as `application/octet-stream` unless a header says otherwise. `path` starts from the
    /// scenario's package; the file is read when it is sent first, once for all users of a run, and shared.
    ///
    /// One that cannot be read ends the run, as wrongly configured.
    pub fn body_file(mut self, path: impl AsRef<Path>) -> Self {
        self.upload = Some(Box::new(Upload::File(path.as_ref().to_owned())));
        self
    }

    /// The body: a form of several parts, files among them, with its content type.
    pub fn multipart(mut self, form: Form) -> Self {
        match form.invalid() {
            None => self.upload = Some(Box::new(Upload::form(form))),
            Some(why) => self.refuse("form", why),
        }
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

    /// Which statuses are a success, in place of what the scenario says (200 to 399 unless set): what else comes counts
    /// as failed, and its latency is in no figure.
    pub fn expected_status(mut self, expected: impl Into<StatusSet>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// How many redirects are followed, at most, in place of what the scenario says (10 unless set); one more is an
    /// error. With 0 none is followed: the redirect is the response.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn sign_out(vu: &Vu) -> Result {
    ///     let moved = vu.post("/logout").max_redirects(0).send().await?.expect_status(303)?;
    ///     vu.check("to the front page", moved.header("location") == Some("/"));
    ///     Ok(())
    /// }
    /// # let _ = scenario("out", sign_out);
    /// ```
    pub fn max_redirects(mut self, at_most: u32) -> Self {
        self.max_redirects = Some(at_most);
        self
    }

    /// Reads the body of the response to its end, counts its bytes, and keeps nothing of it: for downloads whose
    /// content is of no interest, of any length. [`Response::bytes`] is empty then, and
    /// [`text`](Response::text) and [`json`](Response::json) are errors that say so.
    pub fn discard_body(mut self) -> Self {
        self.discard = Some(true);
        self
    }

    /// Keeps the body of the response where [the scenario discards them](crate::Scenario::discard_bodies).
    pub fn keep_body(mut self) -> Self {
        self.discard = Some(false);
        self
    }

    /// Gives this request's sample and span a tag, beside those of the scenario and the user. See
    /// [`Scenario::tag`](crate::Scenario::tag).
    pub fn tag(mut self, name: &str, value: impl Into<String>) -> Self {
        match tags::check_name(name) {
            Ok(()) => self.tags.set(name, value),
            Err(why) => {
                self.vu.note_misconfiguration(&why);
                self.refuse("tag", why);
            }
        }
        self
    }

    /// Accepts a compressed response (`accept-encoding: gzip, deflate, br, zstd`) and decompresses its body, up to 64 MiB.
    ///
    /// The clock stops before the decompression, bytes are counted as they came, and the headers stay as they were. A
    /// request that has an `accept-encoding` header of its own is sent with that, and gets the body as it comes.
    pub fn accept_compressed(mut self) -> Self {
        self.accept_compressed = true;
        self
    }

    fn typed_body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        self.body(body)
    }

    fn refuse(&mut self, what: &'static str, why: String) {
        self.invalid.get_or_insert_with(|| Box::new(RequestError::Invalid { what, why }));
    }

    /// Sends the request and reads the whole response. The clock runs from here to the last byte of the body.
    ///
    /// Any status is a response; see [`Response::expect_status`]. Redirects to the same host are followed (see
    /// [`max_redirects`](Self::max_redirects)); each is counted as a request of its own, under the same name. One to
    /// another host, to a port that may not be sent load, or from https to http is not followed: it is the response.
    ///
    /// # Errors
    ///
    /// When the request could not be built (a placeholder is missing, there is no base URL), or when no whole response
    /// came: refused, reset, timed out, cut short. Only the latter count as requests.
    pub fn send(self) -> impl Future<Output = Result<Response>> + 'v {
        // Before the future is made, so that it does not carry what only this needs.
        let ready = self.ready();
        async move { ready.map_err(|error| *error)?.send().await }
    }

    /// The request as it will be sent, or why it cannot be.
    pub(super) fn ready(mut self) -> Result<Box<Ready<'v>>, Box<RequestError>> {
        if let Some(invalid) = self.invalid.take() {
            return Err(invalid);
        }
        let url = self
            .vu
            .target()
            .url(&self.template, &self.path, &self.query)
            .inspect_err(|error| self.vu.note_misconfigured(error))?;
        let defaults = self.vu.requests();
        let discard = self.discard.unwrap_or(defaults.discard_bodies);
        let max_redirects = self.max_redirects.unwrap_or(defaults.max_redirects);
        let Self { vu, method, template, name, mut headers, body, upload, timeout, expected, tags, .. } =
            self;
        let decompress = self.accept_compressed && !headers.contains_key(ACCEPT_ENCODING);
        if decompress {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(compression::ACCEPTED));
        }
        if let Some(upload) = &upload {
            upload.announce(&mut headers);
        }
        let outgoing = Outgoing { method, url, headers, body: body.into(), discard };
        Ok(Box::new(Ready {
            vu,
            template,
            name,
            tags,
            outgoing,
            upload,
            timeout,
            expected,
            max_redirects,
            decompress,
        }))
    }
}
