//! The library's public error.

use std::fmt;

/// What a scenario's code returns.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Any error of a scenario's code: one of this library's own, or whatever else `?` met.
///
/// It is not itself a [`std::error::Error`], so that `?` can take every type that is one; a helper that returns
/// another error type hands it on with [`Error::into_boxed`].
///
/// ```
/// fn helper(text: &str) -> loadtest::Result<u32> {
///     let number: u32 = text.parse()?;
///     if number == 0 {
///         return Err("zero is no page number".into());
///     }
///     Ok(number)
/// }
/// assert_eq!(helper("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Error {
    inner: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    /// The error that was wrapped.
    #[must_use]
    pub fn into_boxed(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.inner
    }

    /// Whether a request failed before a whole response was there: refused, reset, timed out, cut short.
    #[must_use]
    pub fn is_transport(&self) -> bool {
        self.inner
            .downcast_ref::<super::http::RequestError>()
            .is_some_and(super::http::RequestError::is_transport)
    }

    /// Whether a request took longer than its timeout.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.inner
            .downcast_ref::<super::http::RequestError>()
            .is_some_and(super::http::RequestError::is_timeout)
    }

    /// The message with those of its sources, joined by colons.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.inner.to_string();
        let mut source = self.inner.source();
        while let Some(error) = source {
            let message = error.to_string();
            // Many errors print their source themselves.
            if !text.ends_with(&message) {
                text = format!("{text}: {message}");
            }
            source = error.source();
        }
        text
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self { inner: error.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the list")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn a_chain_names_each_cause_once() {
        let error = Error::from(Outer("x".parse::<u32>().unwrap_err()));
        assert_eq!(error.chain(), "cannot read the list: invalid digit found in string");
        assert_eq!(Error::from("plain").chain(), "plain");
    }
}
