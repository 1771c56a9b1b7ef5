//! A user's cookies as its scenario sees them, and as requests carry and bring them.

use std::fmt;

use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use url::Url;

use super::error::RequestError;
use super::transport::Outgoing;
use crate::runtime::error::Result;
use crate::runtime::scenario::Vu;
use crate::sys::clock;

/// The cookies of one user, from [`Vu::cookies`].
///
/// They are kept from responses and sent with requests by the rules of RFC 6265: by host and domain, path, scheme and
/// lifetime, on each hop of a redirect. At the begin of each iteration there are none, unless the scenario
/// [keeps them](crate::Scenario::keep_cookies). No two users share any. A request with a `cookie` header of its own carries
/// that alone.
///
/// ```
/// use loadtest::prelude::*;
///
/// async fn returning(vu: &Vu) -> Result {
///     vu.cookies().set("consent", "yes")?;
///     vu.post("/login").form([("name", "ada")]).send().await?;
///     vu.check("has a session", vu.cookies().get("session").is_some());
///     vu.get("/account").send().await?;      // with both cookies
///     Ok(())
/// }
/// # let _ = scenario("returning", returning);
/// ```
pub struct Cookies<'v> {
    vu: &'v Vu,
}

impl fmt::Debug for Cookies<'_> {
    /// Without values, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookies").field("vu", &self.vu.id()).finish_non_exhaustive()
    }
}

impl<'v> Cookies<'v> {
    pub(crate) fn of(vu: &'v Vu) -> Self {
        Self { vu }
    }

    /// The value of the cookie `name`, whatever its host and path; of the one that was set last where there are several.
    pub fn get(&self, name: &str) -> Option<String> {
        self.vu.jar().borrow().get(name, now()).map(str::to_owned)
    }

    /// The names and values that a request to `url` would carry, in the order in which it would. `url` is a path below the
    /// base URL, or whole.
    ///
    /// # Errors
    ///
    /// When `url` is none, or may not be sent load.
    pub fn sent_to(&self, url: &str) -> Result<Vec<(String, String)>> {
        let url = self.vu.target().url(url, &[], &[])?;
        let jar = self.vu.jar().borrow();
        let sent = jar.sent_to(&url, now()).into_iter();
        Ok(sent.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Sets a cookie for the base URL's host, all its paths, until the cookies are cleared.
    ///
    /// # Errors
    ///
    /// When there is no base URL, or name or value cannot stand in a header.
    pub fn set(&self, name: &str, value: &str) -> Result {
        self.set_for("/", name, value)
    }

    /// Sets a cookie for the host of `url` (a path below the base URL, or whole), all its paths, until the cookies are
    /// cleared.
    ///
    /// # Errors
    ///
    /// When `url` is none, or may not be sent load, or name or value cannot stand in a header.
    pub fn set_for(&self, url: &str, name: &str, value: &str) -> Result {
        let refused = |why: &str| RequestError::Invalid { what: "cookie", why: format!("`{name}`: {why}") };
        if name.is_empty() || name.contains(|c: char| c.is_control() || " =;,".contains(c)) {
            Err(refused("a name has neither spaces, control characters nor `=`, `;`, `,`"))?;
        }
        if value.contains(|c: char| c.is_control() || c == ';') {
            Err(refused("a value has neither control characters nor `;`"))?;
        }
        let url = self.vu.target().url(url, &[], &[])?;
        self.vu.jar().borrow_mut().set(&url, name, value);
        Ok(())
    }

    /// Removes all cookies of this name.
    pub fn remove(&self, name: &str) {
        self.vu.jar().borrow_mut().remove(name);
    }

    /// Removes all cookies.
    pub fn clear(&self) {
        self.vu.jar().borrow_mut().clear();
    }
}

/// Puts the cookies that belong to its URL onto a request, in place of those of the hop before.
pub(super) fn announce(vu: &Vu, outgoing: &mut Outgoing) {
    outgoing.headers.remove(COOKIE);
    let jar = vu.jar().borrow();
    if jar.is_empty() {
        return;
    }
    let pairs: Vec<String> =
        jar.sent_to(&outgoing.url, now()).iter().map(|(name, value)| format!("{name}={value}")).collect();
    // What came in a header, or was refused otherwise, can go into one.
    if let Ok(header) = HeaderValue::try_from(pairs.join("; "))
        && !pairs.is_empty()
    {
        outgoing.headers.insert(COOKIE, header);
    }
}

/// Keeps the cookies of a response from `url`.
pub(super) fn keep(vu: &Vu, url: &Url, headers: &HeaderMap) {
    if !headers.contains_key(SET_COOKIE) {
        return;
    }
    let mut jar = vu.jar().borrow_mut();
    for header in headers.get_all(SET_COOKIE) {
        // One that is no text cannot be sent back as it came.
        if let Ok(header) = std::str::from_utf8(header.as_bytes()) {
            jar.store(url, header, now());
        }
    }
}

/// Seconds since 1970: what servers write dates in.
fn now() -> u64 {
    clock::unix_nanos() / 1_000_000_000
}
