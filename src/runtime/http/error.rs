//! What can go wrong with a request, and the class that it is counted under.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(
        "`{template}` is relative, and there is no base-url; set base-url in loadtest.toml, --base-url or LOADTEST_BASE_URL"
    )]
    NoBaseUrl { template: String },
    #[error("`{template}` has a placeholder that nothing fills in: call .path(`{key}`, …)")]
    MissingPathParameter { template: String, key: String },
    #[error("`{template}` has no placeholder {{{key}}}")]
    UnknownPathParameter { template: String, key: String },
    #[error("`{url}` is no URL: {why}")]
    Url { url: String, why: String },
    #[error("{host} may not be sent load: it is neither a loopback address nor the base-url's host")]
    HostNotAllowed { host: String },
    #[error("the request's {what} cannot be sent: {why}")]
    Invalid { what: &'static str, why: String },
    #[error("{step}: no whole response within {}", crate::model::duration::format(*.after))]
    Timeout { step: String, after: Duration },
    #[error("{step}: {class}")]
    Transport { step: String, class: &'static str, source: reqwest::Error },
    #[error("{step}: {why}")]
    Response { step: String, why: String },
}

impl RequestError {
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Transport { .. })
    }

    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// The scenario's code or its configuration is wrong: no load can mend it.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(self, Self::NoBaseUrl { .. } | Self::HostNotAllowed { .. })
    }
}

/// The class of a transport error, as in `error.type`.
pub(crate) fn class_of(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        return if error.is_connect() { "connect_timeout" } else { "timeout" };
    }
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    let mut cut_short = false;
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && let Some(class) = class_of_io(io)
        {
            return class;
        }
        if error.downcast_ref::<rustls::Error>().is_some() {
            return "tls";
        }
        let text = error.to_string();
        if text.contains("dns error") {
            return "dns";
        }
        // hyper's error has no public kinds for these two.
        cut_short |=
            text.contains("end of file before message length reached") || text.contains("unexpected EOF");
        if text.contains("connection closed before message completed") {
            return "reset";
        }
        cause = error.source();
    }
    if cut_short || error.is_body() || error.is_decode() {
        "body"
    } else if error.is_connect() {
        "connect"
    } else {
        "protocol"
    }
}

fn class_of_io(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind as Kind;
    if let Some(inner) = error.get_ref()
        && inner.downcast_ref::<rustls::Error>().is_some()
    {
        return Some("tls");
    }
    Some(match error.kind() {
        Kind::ConnectionRefused => "connect_refused",
        Kind::ConnectionReset | Kind::BrokenPipe | Kind::ConnectionAborted => "reset",
        Kind::AddrNotAvailable => "generator_address",
        Kind::TimedOut => "connect_timeout",
        // EMFILE and ENFILE: the generator ran out of descriptors.
        _ if matches!(error.raw_os_error(), Some(23 | 24)) => "generator_descriptors",
        _ => return None,
    })
}
