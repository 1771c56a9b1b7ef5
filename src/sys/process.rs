//! Starting processes.
#![expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]

use std::ffi::OsStr;

/// A command for tokio that is not started yet.
pub(crate) fn command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::new(program)
}
