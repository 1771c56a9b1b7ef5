//! One user's connections that wait for its next request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use url::Url;

use super::connect::{Channel, Connection};

/// Connections by scheme, host and port. Mostly there is one.
///
/// The lock is never contended, because a user stays on its thread; it lets the export share this code with the load.
#[derive(Debug, Default)]
pub(super) struct Pool {
    origins: Mutex<Vec<Origin>>,
}

#[derive(Debug)]
struct Origin {
    secure: bool,
    host: String,
    port: Option<u16>,
    authority: http::HeaderValue,
    /// HTTP/1.1 connections without a request on them, the last used one last.
    idle: Vec<http1::SendRequest<Full<Bytes>>>,
    /// The HTTP/2 connection: it takes requests beside each other, so it stays here while it is used.
    shared: Option<http2::SendRequest<Full<Bytes>>>,
}

impl Origin {
    fn is_of(&self, url: &Url) -> bool {
        self.port == url.port_or_known_default()
            && self.secure == (url.scheme() == "https")
            && Some(self.host.as_str()) == url.host_str()
    }
}

impl Pool {
    /// A connection to the host of `url`, which may have been closed meanwhile.
    pub(super) fn take(&self, url: &Url) -> Option<Connection> {
        let mut origins = self.lock();
        let origin = origins.iter_mut().find(|origin| origin.is_of(url))?;
        if origin.shared.as_ref().is_some_and(http2::SendRequest::is_closed) {
            origin.shared = None;
        }
        let channel = match &origin.shared {
            Some(shared) => Channel::Http2(shared.clone()),
            None => Channel::Http1(origin.idle.pop()?),
        };
        Some(Connection { channel, authority: origin.authority.clone() })
    }

    /// Keeps a connection whose response has been read.
    pub(super) fn put(&self, url: &Url, connection: Connection) {
        let mut origins = self.lock();
        let at = origins.iter().position(|origin| origin.is_of(url)).unwrap_or_else(|| {
            origins.push(Origin {
                secure: url.scheme() == "https",
                host: url.host_str().unwrap_or_default().to_owned(),
                port: url.port_or_known_default(),
                authority: connection.authority,
                idle: Vec::new(),
                shared: None,
            });
            origins.len() - 1
        });
        match connection.channel {
            Channel::Http1(channel) if !channel.is_closed() => origins[at].idle.push(channel),
            Channel::Http1(_) => {}
            Channel::Http2(channel) => {
                origins[at].shared.get_or_insert(channel);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Origin>> {
        // A panic elsewhere leaves the list whole.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
