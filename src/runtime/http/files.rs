//! Files that requests send: read once, by whoever sends them first, and shared.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::sys;

/// What has been read in a run.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles {
    known: Mutex<HashMap<PathBuf, Arc<OnceCell<Bytes>>>>,
}

/// What the users of one thread have sent before. They ask the others, and take their lock, only for the first time.
#[derive(Debug, Default)]
pub(crate) struct Files {
    shared: Arc<SharedFiles>,
    sent: RefCell<HashMap<PathBuf, Bytes>>,
}

impl Files {
    pub(crate) fn new(shared: Arc<SharedFiles>) -> Self {
        Self { shared, sent: RefCell::default() }
    }

    /// The content of a file of the scenario's package. The reading itself keeps no other user of this thread waiting.
    pub(super) async fn read(&self, path: &Path) -> io::Result<Bytes> {
        if let Some(content) = self.sent.borrow().get(path) {
            return Ok(content.clone());
        }
        let place = {
            // A panic elsewhere leaves the map whole.
            let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(path.to_owned()).or_default().clone()
        };
        let full = sys::file::in_package(path);
        let read = || async {
            let content = tokio::task::spawn_blocking(move || sys::file::read(&full)).await;
            content.map_err(io::Error::other)?.map(Bytes::from)
        };
        let content = place.get_or_try_init(read).await?.clone();
        self.sent.borrow_mut().insert(path.to_owned(), content.clone());
        Ok(content)
    }
}
