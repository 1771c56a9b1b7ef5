//! Starting processes, and what this one is.

#[cfg(feature = "cli")]
use std::ffi::OsStr;
#[cfg(feature = "cli")]
use std::io;
#[cfg(feature = "cli")]
use std::path::PathBuf;

/// A command for tokio that is not started yet.
#[cfg(feature = "cli")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::from(unwatched_command(program))
}

/// A command whose child is reaped by [`Children`](super::family::Children), not by tokio.
#[cfg(feature = "cli")]
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub(crate) fn unwatched_command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

/// The program that this process runs.
#[cfg(feature = "cli")]
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // A tool that was rebuilt while it runs has lost its path, but not its program.
    if cfg!(target_os = "linux") && !path.exists() {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    Ok(path)
}

/// Whether `group` is the process group of this process.
#[cfg(feature = "cli")]
pub(crate) fn is_own_group(group: u32) -> bool {
    #[cfg(unix)]
    return rustix::process::getpgrp().as_raw_nonzero().get().unsigned_abs() == group;
    #[cfg(not(unix))]
    return group == std::process::id();
}

/// Ends this process at once, whatever its threads are doing.
#[expect(clippy::exit, reason = "the one way to end a process whose threads run somebody else's code")]
pub(crate) fn exit(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
