//! Starting processes.
#![expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

/// A command for tokio that is not started yet.
pub(crate) fn command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::new(program)
}

/// A command whose child is reaped by [`Children`](super::family::Children), not by tokio.
pub(crate) fn unwatched_command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

/// The program that this process runs.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // A tool that was rebuilt while it runs has lost its path, but not its program.
    if cfg!(target_os = "linux") && !path.exists() {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    Ok(path)
}

/// Whether `group` is the process group of this process.
pub(crate) fn is_own_group(group: u32) -> bool {
    #[cfg(unix)]
    return rustix::process::getpgrp().as_raw_nonzero().get().unsigned_abs() == group;
    #[cfg(not(unix))]
    return group == std::process::id();
}
