//! What can go wrong with a request, and the class that it is counted under.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::http::{GENERATOR_ADDRESS, GENERATOR_DESCRIPTORS, GENERATOR_MEMORY, GENERATOR_TRUST};

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(
        "`{template}` is relative, and there is no base-url; set base-url in loadtest.toml, --base-url or LOADTEST_BASE_URL"
    )]
    NoBaseUrl { template: String },
    #[error("`{template}` has a placeholder that nothing fills in: call .path(\"{key}\", …)")]
    MissingPathParameter { template: String, key: String },
    #[error("`{template}` has no placeholder {{{key}}}")]
    UnknownPathParameter { template: String, key: String },
    #[error("`{url}` is no URL: {why}")]
    Url { url: String, why: String },
    #[error(
        "{host} may not be sent load: it is neither a loopback address nor the base-url's host; allow it with --allow-host {host}, or http.allowed-hosts in loadtest.toml"
    )]
    HostNotAllowed { host: String },
    #[error("the request's {what} cannot be sent: {why}")]
    Invalid { what: &'static str, why: String },
    #[error("cannot read `{}`, which a request sends: {}: {why}", path.display(), full.display())]
    File { path: PathBuf, full: PathBuf, why: io::Error },
    #[error("{step}: no whole response within {}", crate::model::duration::format(*.after))]
    Timeout { step: String, after: Duration },
    #[error("{step}: {class}")]
    Transport { step: String, class: &'static str, source: TransportError },
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
        matches!(self, Self::NoBaseUrl { .. } | Self::HostNotAllowed { .. } | Self::File { .. })
    }
}

/// Why no whole response came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("{host} has no address")]
    Dns { host: String, source: io::Error },
    #[error("could not connect to {address}")]
    Connect { address: String, source: io::Error },
    #[error("cannot connect from {address}")]
    Source { address: IpAddr, source: io::Error },
    #[error("no connection within {}", crate::model::duration::format(*.after))]
    ConnectTimeout { after: Duration },
    #[error("no TLS connection with {host}")]
    Tls { host: String, source: io::Error },
    #[error("{0}")]
    Trust(String),
    #[error("the URL cannot be sent")]
    Unsendable,
    #[error("the request cannot be sent over HTTP/2")]
    Http2Unsendable(#[source] h2::Error),
    #[error("no response")]
    Exchange(#[source] hyper::Error),
    #[error("no response")]
    Http2(#[source] h2::Error),
    #[error("the body did not come whole")]
    Body(#[source] hyper::Error),
    #[error("the body did not come whole")]
    Http2Body(#[source] h2::Error),
    #[error("the body is not whole {coding}")]
    Encoding { coding: &'static str, source: io::Error },
    #[error("the body is longer than {} MiB, the most that is read", super::transport::MOST_BODY >> 20)]
    TooLarge,
    #[error("more than {most} redirects")]
    TooManyRedirects { most: u32 },
}

impl TransportError {
    /// As in `error.type`.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Dns { source, .. } => own_class(source).unwrap_or("dns"),
            Self::Connect { source, .. } => class_of_connecting(source).unwrap_or("connect"),
            Self::Source { source, .. } => own_class(source).unwrap_or(GENERATOR_ADDRESS),
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::Tls { source, .. } => class_of_connecting(source).unwrap_or("tls"),
            Self::Trust(_) => GENERATOR_TRUST,
            Self::Exchange(error) => class_of_exchange(error).unwrap_or("protocol"),
            Self::Http2(error) => class_of_http2(error).unwrap_or("protocol"),
            Self::TooLarge | Self::Encoding { .. } => "body",
            Self::Body(error) => class_of_exchange(error).unwrap_or("body"),
            Self::Http2Body(error) => class_of_http2(error).unwrap_or("body"),
            Self::Unsendable | Self::Http2Unsendable(_) | Self::TooManyRedirects { .. } => "protocol",
        }
    }
}

fn class_of_exchange(error: &hyper::Error) -> Option<&'static str> {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return Some("reset");
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(class) = error.downcast_ref::<io::Error>().and_then(class_of_io) {
            return Some(class);
        }
        cause = error.source();
    }
    None
}

/// A stream that the server reset, or a connection that it has ended, is `reset`; what either end found to be against the
/// protocol has none.
fn class_of_http2(error: &h2::Error) -> Option<&'static str> {
    match error.get_io() {
        Some(source) => class_of_io(source).or(Some("reset")),
        None => error.is_remote().then_some("reset"),
    }
}

/// `EMFILE` and `ENFILE`; the process's handles and sockets.
const NO_DESCRIPTORS: [i32; 2] = if cfg!(windows) { [4, 10_024] } else { [24, 23] };

/// `ENOMEM` and `ENOBUFS`.
const NO_MEMORY: [i32; 2] = if cfg!(windows) {
    [8, 10_055]
} else if cfg!(any(target_os = "linux", target_os = "android")) {
    [12, 105]
} else {
    [12, 55]
};

/// The class of what only the generator can be short of.
fn own_class(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        // To bind to any port is said to be in use where none is free.
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Some(GENERATOR_ADDRESS),
        io::ErrorKind::OutOfMemory => Some(GENERATOR_MEMORY),
        _ => match error.raw_os_error()? {
            code if NO_DESCRIPTORS.contains(&code) => Some(GENERATOR_DESCRIPTORS),
            code if NO_MEMORY.contains(&code) => Some(GENERATOR_MEMORY),
            _ => None,
        },
    }
}

/// The class of what ends a connection before it can be used.
fn class_of_connecting(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::TimedOut => Some("connect_timeout"),
        _ => class_of_io(error),
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
        // The system gave up on a connection that there was.
        Kind::TimedOut => "timeout",
        _ => return own_class(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_to_connect_has_its_class() {
        let connect = |source| TransportError::Connect { address: "127.0.0.1:1".into(), source };
        let from = |source| TransportError::Source { address: [127, 0, 0, 2].into(), source };
        let tls = |source| TransportError::Tls { host: "h".into(), source };
        let of_tls = || io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
        for (error, class) in [
            (TransportError::Dns { host: "h".into(), source: io::ErrorKind::NotFound.into() }, "dns"),
            (connect(io::ErrorKind::ConnectionRefused.into()), "connect_refused"),
            (connect(io::ErrorKind::TimedOut.into()), "connect_timeout"),
            (connect(io::ErrorKind::AddrNotAvailable.into()), "generator_address"),
            (connect(io::ErrorKind::PermissionDenied.into()), "connect"),
            (from(io::ErrorKind::AddrInUse.into()), "generator_address"),
            (from(io::ErrorKind::PermissionDenied.into()), "generator_address"),
            (TransportError::ConnectTimeout { after: Duration::from_secs(1) }, "connect_timeout"),
            (connect(io::Error::from_raw_os_error(NO_DESCRIPTORS[0])), "generator_descriptors"),
            (connect(io::Error::from_raw_os_error(NO_DESCRIPTORS[1])), "generator_descriptors"),
            (
                TransportError::Dns {
                    host: "h".into(),
                    source: io::Error::from_raw_os_error(NO_DESCRIPTORS[0]),
                },
                "generator_descriptors",
            ),
            (connect(io::Error::from_raw_os_error(NO_MEMORY[0])), "generator_memory"),
            (connect(io::Error::from_raw_os_error(NO_MEMORY[1])), "generator_memory"),
            (tls(io::Error::from_raw_os_error(NO_MEMORY[1])), "generator_memory"),
            (connect(io::ErrorKind::OutOfMemory.into()), "generator_memory"),
            #[cfg(target_os = "linux")]
            (connect(io::Error::from_raw_os_error(99)), "generator_address"),
            (TransportError::Trust("nothing".into()), "generator_trust"),
            (tls(of_tls()), "tls"),
            (tls(io::ErrorKind::UnexpectedEof.into()), "tls"),
            (tls(io::ErrorKind::ConnectionReset.into()), "reset"),
            (tls(io::ErrorKind::TimedOut.into()), "connect_timeout"),
            (TransportError::TooManyRedirects { most: 10 }, "protocol"),
        ] {
            assert_eq!(error.class(), class, "{error:?}");
        }
    }

    #[test]
    fn an_established_connection_that_the_system_gives_up_is_a_timeout_but_none_of_connecting() {
        assert_eq!(class_of_io(&io::ErrorKind::TimedOut.into()), Some("timeout"));
    }
}
