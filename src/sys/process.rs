//! Starting processes, and ending this one.

#[cfg(feature = "cli")]
use std::ffi::OsStr;

/// A command for tokio that is not started yet.
#[cfg(feature = "cli")]
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::from(std::process::Command::new(program))
}

/// Ends this process at once, whatever its threads are doing.
#[expect(clippy::exit, reason = "the one way to end a process whose threads run somebody else's code")]
pub(crate) fn exit(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
