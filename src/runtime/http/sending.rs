//! A request on its way: hop by hop, each measured, until there is a response or an error.

use std::pin::pin;
use std::time::Duration;

use http::header::{COOKIE, HeaderName, HeaderValue};

use super::compression;
use super::cookies;
use super::error::{RequestError, TransportError};
use super::measured::Measured;
use super::multipart::Upload;
use super::response::Response;
use super::status::StatusSet;
use super::target::name_of;
use super::transport::Outgoing;
use super::transport::redirect::{self, Redirect};
use crate::model::tags::Tags;
use crate::runtime::error::Result;
use crate::runtime::record::RequestEnd;
use crate::runtime::scenario::Vu;

/// A request that can be sent: its URL is known and may receive load.
#[derive(Debug)]
pub(super) struct Ready<'v> {
    pub(super) vu: &'v Vu,
    pub(super) template: String,
    pub(super) name: Option<String>,
    pub(super) tags: Tags,
    pub(super) outgoing: Outgoing,
    /// What becomes the body, when it is not there yet.
    pub(super) upload: Option<Box<Upload>>,
    pub(super) timeout: Duration,
    /// `None`: what the scenario says.
    pub(super) expected: Option<StatusSet>,
    pub(super) max_redirects: u32,
    pub(super) decompress: bool,
}

impl Ready<'_> {
    /// The host and port that it goes to.
    pub(super) fn origin(&self) -> (String, Option<u16>) {
        let url = &self.outgoing.url;
        (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default())
    }

    /// Boxed, because it is large: what a future has as an argument is copied with it at each `await` that it is in.
    pub(super) async fn send(mut self: Box<Self>) -> Result<Response> {
        let vu = self.vu;
        if let Some(upload) = self.upload.take() {
            // Boxed, because it is rare: every request would carry its room.
            let body = Box::pin(upload.body(vu.files())).await;
            self.outgoing.body = body.inspect_err(|error| vu.note_misconfigured(error))?;
        }
        let method = self.outgoing.method.clone();
        let has_own_cookies = self.outgoing.headers.contains_key(COOKIE);
        let mut left = self.timeout;
        // Each hop of a redirect is a request like any other: counted in the same row, with a span of its own.
        let mut hop = 0;
        loop {
            let Self { template, name, tags, outgoing, expected, max_redirects, decompress, .. } = &mut *self;
            let template = name_of(template);
            if !has_own_cookies {
                cookies::announce(vu, outgoing);
            }
            let mut measured = Measured::begin(vu, &method, template, name.as_deref(), tags);
            if let Some(traceparent) = measured.announce(outgoing, template, hop) {
                let value = HeaderValue::try_from(traceparent).expect("hexadecimal digits and dashes");
                outgoing.headers.insert(HeaderName::from_static("traceparent"), value);
            }
            // Pinned here, where it is made: handed over as a value it would be copied, and it is large.
            let ended = {
                let exchange = pin!(vu.transport().exchange(outgoing, &mut measured.progress));
                vu.timer().within(left, exchange).await
            };
            let Some(ended) = ended else {
                measured.end(&RequestEnd::Error { class: "timeout", timed_out: true });
                return Err(
                    RequestError::Timeout { step: measured.name.to_string(), after: self.timeout }.into()
                );
            };
            let arrived = ended.and_then(|mut received| {
                cookies::keep(vu, &outgoing.url, &received.headers);
                let redirect = match max_redirects {
                    0 => Redirect::None,
                    _ => redirect::follow(outgoing, &received, |url| vu.target().may_receive(url)),
                };
                if redirect == Redirect::Followed {
                    if hop >= *max_redirects as usize {
                        return Err(TransportError::TooManyRedirects { most: *max_redirects });
                    }
                } else if *decompress && compression::is_encoded(&received.headers) {
                    measured.stop();
                    received.body = compression::decoded(&received.headers, received.body)?;
                }
                Ok((redirect, received))
            });
            let (redirect, received) = arrived.map_err(|source| {
                let class = source.class();
                if let TransportError::Trust(why) = &source {
                    vu.note_misconfiguration(why);
                }
                measured.end(&RequestEnd::Error {
                    class,
                    timed_out: matches!(class, "connect_timeout" | "timeout"),
                });
                RequestError::Transport { step: measured.name.to_string(), class, source }
            })?;
            let status = received.status.as_u16();
            // What the author expects is the last status; a redirect that is followed did what it should.
            let expected = expected.as_ref().unwrap_or(&vu.requests().expected);
            let expected = redirect == Redirect::Followed || expected.contains(status);
            measured.head(status, received.version);
            let bytes_received = received.body_bytes;
            let timings = measured.end(&RequestEnd::Response { status, expected, bytes_received });
            match redirect {
                Redirect::Followed => {
                    left = left.saturating_sub(timings.total());
                    hop += 1;
                    continue;
                }
                Redirect::Refused { to, why } => vu.note_refused_redirect(&measured.name, &to, why),
                Redirect::None => {}
            }
            return Ok(Response {
                step: measured.name.clone(),
                // No redirect was followed from here, so it is where this response came from.
                url: self.outgoing.url,
                status,
                headers: received.headers,
                body: received.body,
                discarded: self.outgoing.discard,
                timings,
            });
        }
    }
}
