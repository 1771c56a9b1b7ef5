//! Why services could not be started or kept running.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::logs;
use super::placeholders::PlaceholderError;

/// How many last lines of a service an error shows.
const LAST_LINES: usize = 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("service name `{name}`: use letters, digits, `-`, `_` and `.`, and begin with a letter or digit")]
    Name { name: String },
    #[error("two services are named `{name}`")]
    DuplicateName { name: String },
    #[error("service `{service}`")]
    Placeholder { service: String, source: PlaceholderError },
    #[error("service `{service}`: `{address}` is no `host:port`")]
    Address { service: String, address: String },
    #[error("service `{service}`: `{url}` is no http or https URL")]
    Url { service: String, url: String },
    #[error("no free loopback port")]
    NoPort { source: io::Error },
    #[error("the guard process of the services could not be started")]
    Guard { source: io::Error },
    #[error("the guard process of the services ended unexpectedly; they were ended too")]
    GuardGone,
    #[error("the client for readiness probes could not be made")]
    Probe { source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "service `{service}`: {address} already answers before the service was started: end what listens there, or use `{{port}}` for a free port"
    )]
    PortTaken { service: String, address: String },
    #[error("service `{service}`: cannot start `{}`: {reason}", program.display())]
    NotStarted { service: String, program: PathBuf, reason: String },
    #[error("service `{service}` ended before it was ready ({status})\n{log}")]
    EndedEarly { service: String, status: String, log: LogTail },
    #[error("service `{service}` was not ready within {}: {last}\n{log}", crate::model::duration::format(*timeout))]
    NotReady { service: String, timeout: Duration, last: String, log: LogTail },
    #[error("service `{service}` ended during the run ({status})\n{log}")]
    Ended { service: String, status: String, log: LogTail },
}

impl ServiceError {
    /// Whether the configuration is wrong, rather than a service.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Name { .. }
                | Self::DuplicateName { .. }
                | Self::Placeholder { .. }
                | Self::Address { .. }
                | Self::Url { .. }
        )
    }
}

/// The last lines of a service and where to read the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogTail {
    pub(crate) path: PathBuf,
    pub(crate) lines: Vec<String>,
}

impl LogTail {
    pub(super) fn read(path: &Path) -> Self {
        Self { path: path.to_owned(), lines: logs::last_lines(path, LAST_LINES) }
    }
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            writeln!(f, "  it wrote nothing")?;
        }
        for line in &self.lines {
            writeln!(f, "  | {line}")?;
        }
        write!(f, "  log: {}", self.path.display())
    }
}
