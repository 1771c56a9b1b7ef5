//! What a scenario says once for all of its requests.

use super::options::HttpOptions;
use super::status::StatusSet;
use super::transport::MOST_REDIRECTS;

/// Holds for each request that says nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestDefaults {
    pub(crate) expected: StatusSet,
    pub(crate) max_redirects: u32,
    pub(crate) discard_bodies: bool,
    pub(crate) accept_compressed: bool,
    /// From iteration to iteration.
    pub(crate) keep_cookies: bool,
    pub(crate) http: HttpOptions,
}

impl Default for RequestDefaults {
    fn default() -> Self {
        Self {
            expected: StatusSet::default(),
            max_redirects: MOST_REDIRECTS,
            discard_bodies: false,
            accept_compressed: false,
            keep_cookies: false,
            http: HttpOptions::default(),
        }
    }
}
