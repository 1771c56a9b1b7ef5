//! A request on its way: hop by hop, each measured, until there is a response or an error.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::error::{RequestError, TransportError};
use super::measured::Measured;
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
    pub(super) timeout: Duration,
    /// `None`: what the scenario says.
    pub(super) expected: Option<StatusSet>,
    pub(super) max_redirects: u32,
}

impl Ready<'_> {
    pub(super) async fn send(self) -> Result<Response> {
        let Self { vu, template, name, tags, mut outgoing, timeout, expected, max_redirects } = self;
        let template = name_of(&template);
        let method = outgoing.method.clone();
        let expected = expected.as_ref().unwrap_or(&vu.requests().expected);
        let mut left = timeout;
        // Each hop of a redirect is a request like any other: counted in the same row, with a span of its own.
        let mut hop = 0;
        loop {
            let mut measured = Measured::begin(vu, &method, template, name.as_deref(), &tags);
            if let Some(traceparent) = measured.announce(&outgoing, template, hop) {
                let value = HeaderValue::try_from(traceparent).expect("hexadecimal digits and dashes");
                outgoing.headers.insert(HeaderName::from_static("traceparent"), value);
            }
            let step = measured.name.to_string();
            let Some(ended) = vu.timer().within(left, vu.transport().exchange(&outgoing)).await else {
                measured.end(&RequestEnd::Error { class: "timeout", timed_out: true });
                return Err(RequestError::Timeout { step, after: timeout }.into());
            };
            let redirected = ended.map(|received| match max_redirects {
                0 => (Redirect::None, received),
                _ => (redirect::follow(&mut outgoing, &received), received),
            });
            let (redirect, received) = match redirected {
                Ok((Redirect::Followed, _)) if hop >= max_redirects as usize => {
                    Err(TransportError::TooManyRedirects { most: max_redirects })
                }
                other => other,
            }
            .map_err(|source| {
                let class = source.class();
                measured.end(&RequestEnd::Error { class, timed_out: class == "connect_timeout" });
                RequestError::Transport { step, class, source }
            })?;
            let status = received.status.as_u16();
            // What the author expects is the last status; a redirect that is followed did what it should.
            let expected = redirect == Redirect::Followed || expected.contains(status);
            measured.head(status, received.version);
            let bytes_received = received.body_bytes;
            let took = measured.end(&RequestEnd::Response { status, expected, bytes_received });
            match redirect {
                Redirect::Followed => {
                    left = left.saturating_sub(took);
                    hop += 1;
                    continue;
                }
                Redirect::Refused { host } => vu.note_refused_redirect(&measured.name, &host),
                Redirect::None => {}
            }
            return Ok(Response {
                step: measured.name.clone(),
                // No redirect was followed from here, so it is where this response came from.
                url: outgoing.url,
                status,
                headers: received.headers,
                body: received.body,
                discarded: outgoing.discard,
            });
        }
    }
}
