//! Where an effective value came from.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The layer, and the place in it, that a value was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub(crate) enum Source {
    /// Built into the tool.
    Default,
    /// A configuration file, outside any named profile.
    File { path: PathBuf, line: usize },
    /// A named profile of a configuration file.
    Profile { name: String, path: PathBuf, line: usize },
    /// A `.env` file.
    EnvFile { path: PathBuf, line: usize },
    /// An environment variable.
    Env { name: &'static str },
    /// A command-line flag.
    Flag { name: &'static str },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } | Self::EnvFile { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            Self::Profile { name, path, line } => write!(f, "{}:{line} (profile {name})", path.display()),
            Self::Env { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

impl<T> Sourced<T> {
    pub(crate) fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }

    pub(crate) fn flag(value: T, name: &'static str) -> Self {
        Self::new(value, Source::Flag { name })
    }

    pub(crate) fn env(value: T, name: &'static str) -> Self {
        Self::new(value, Source::Env { name })
    }
}

/// Puts what `upper` says in place of what `lower` says.
pub(super) fn replace<T>(lower: &mut Option<T>, upper: Option<T>) {
    if upper.is_some() {
        *lower = upper;
    }
}
