//! One user's connections that wait for its next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use url::Url;

use super::connect::{Channel, Connection};
use super::{http1, http2};

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
    /// As the first connection has it.
    authority: Option<HeaderValue>,
    /// HTTP/1.1 connections without a request on them, the last used one last.
    idle: Vec<http1::Sender>,
    /// The HTTP/2 connection: it takes requests beside each other, so it stays here while it is used.
    shared: Option<http2::Sender>,
    /// Whose turn it is to connect, since the server is known to speak HTTP/2.
    turn: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl Origin {
    fn is_of(&self, url: &Url) -> bool {
        self.port == url.port_or_known_default()
            && self.secure == (url.scheme() == "https")
            && Some(self.host.as_str()) == url.host_str()
    }
}

impl Pool {
    /// A connection to the host of `url`, which may have been closed meanwhile; of HTTP/1 only where `any` will do.
    pub(super) fn take(&self, url: &Url, any: bool) -> Option<Connection> {
        let mut origins = self.lock();
        let origin = origins.iter_mut().find(|origin| origin.is_of(url))?;
        let channel = match &origin.shared {
            Some(shared) => Channel::Http2(shared.clone()),
            None if any => Channel::Http1(origin.idle.pop()?),
            None => return None,
        };
        Some(Connection { channel, authority: origin.authority.clone()? })
    }

    /// Keeps a connection whose response has been read.
    pub(super) fn put(&self, url: &Url, connection: Connection) {
        if let Channel::Http1(sender) = connection.channel
            && !sender.is_closed()
        {
            let mut origins = self.lock();
            let origin = Self::origin(&mut origins, url);
            origin.authority = Some(connection.authority);
            origin.idle.push(sender);
        }
    }

    /// Lets other requests onto a new connection from now on, where it takes more than one.
    pub(super) fn share(&self, url: &Url, connection: &Connection) {
        if let Channel::Http2(sender) = &connection.channel {
            let mut origins = self.lock();
            let origin = Self::origin(&mut origins, url);
            origin.authority = Some(connection.authority.clone());
            origin.shared.get_or_insert_with(|| sender.clone());
            origin.turn.get_or_insert_default();
        }
    }

    /// Hands this connection out no more.
    pub(super) fn forget(&self, url: &Url, connection: &Connection) {
        let Channel::Http2(sender) = &connection.channel else { return };
        for origin in self.lock().iter_mut().filter(|origin| origin.is_of(url)) {
            origin.shared.take_if(|shared| shared.is_of(sender));
        }
    }

    /// What to wait for before connecting: `None` where each request has to have a connection of its own, as far as is
    /// known.
    pub(super) fn turn(&self, url: &Url, is_known: bool) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let mut origins = self.lock();
        if is_known {
            return Some(Self::origin(&mut origins, url).turn.get_or_insert_default().clone());
        }
        origins.iter().find(|origin| origin.is_of(url))?.turn.clone()
    }

    fn origin<'o>(origins: &'o mut Vec<Origin>, url: &Url) -> &'o mut Origin {
        let at = origins.iter().position(|origin| origin.is_of(url)).unwrap_or_else(|| {
            origins.push(Origin {
                secure: url.scheme() == "https",
                host: url.host_str().unwrap_or_default().to_owned(),
                port: url.port_or_known_default(),
                authority: None,
                idle: Vec::new(),
                shared: None,
                turn: None,
            });
            origins.len() - 1
        });
        &mut origins[at]
    }

    #[cfg(test)]
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Origin>> {
        // A panic elsewhere leaves the list whole.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
