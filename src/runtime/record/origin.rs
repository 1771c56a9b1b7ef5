//! Where a sample comes from, as selectors ask for it.

use std::borrow::Cow;

use super::RequestEnd;
use crate::model::tags::{BuiltIn, Tagged, Tags};

/// What all samples have: the timed step that they were taken in, and the author's tags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) group: Option<&'a str>,
    /// Of the user, for the rest of its iteration.
    pub(crate) user: &'a Tags,
    /// Of the sample alone.
    pub(crate) own: &'a Tags,
}

/// A sample, with what is special of its sort.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) origin: Origin<'a>,
    /// The scenario's.
    pub(super) tags: &'a Tags,
    pub(super) what: What<'a>,
}

#[derive(Debug)]
pub(super) enum What<'a> {
    Request {
        step: &'a str,
        method: &'a http::Method,
        end: &'a RequestEnd,
    },
    Step {
        step: &'a str,
    },
    Check {
        name: &'a str,
    },
    /// An iteration, or a sample of the author's.
    Plain,
}

impl Tagged for Sample<'_> {
    fn built_in(&self, tag: BuiltIn) -> Option<Cow<'_, str>> {
        let value = match (tag, &self.what) {
            (BuiltIn::Group, _) => self.origin.group?,
            (BuiltIn::Step, What::Request { step, .. } | What::Step { step }) => step,
            (BuiltIn::Check, What::Check { name }) => name,
            (BuiltIn::Method, What::Request { method, .. }) => method.as_str(),
            (BuiltIn::Status, What::Request { end: RequestEnd::Response { status, .. }, .. }) => {
                return Some(Cow::Owned(status.to_string()));
            }
            (BuiltIn::ErrorType, What::Request { end: RequestEnd::Error { class, .. }, .. }) => class,
            (BuiltIn::ExpectedResponse, What::Request { end, .. }) => match end {
                RequestEnd::Response { expected: true, .. } => "true",
                RequestEnd::Response { .. } | RequestEnd::Error { .. } => "false",
                // Nobody knows.
                RequestEnd::Interrupted => return None,
            },
            _ => return None,
        };
        Some(Cow::Borrowed(value))
    }

    fn own(&self, name: &str) -> Option<&str> {
        let Origin { own, user, .. } = self.origin;
        own.get(name).or_else(|| user.get(name)).or_else(|| self.tags.get(name))
    }
}
