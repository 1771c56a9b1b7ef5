//! The process environment: variables, arguments, working folder.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]

use std::ffi::OsString;

/// The variable `key`, if it is set and is UTF-8.
pub(crate) fn var(key: &str) -> Option<String> {
    std::env::var(key).ok()
}

/// All variables whose name and value are UTF-8.
#[cfg(feature = "cli")]
pub(crate) fn vars() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

/// The arguments of this process, the program's name first.
pub(crate) fn args() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// The working folder.
#[cfg(feature = "cli")]
pub(crate) fn current_dir() -> std::io::Result<std::path::PathBuf> {
    std::env::current_dir()
}
