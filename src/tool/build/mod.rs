//! Builds scenario binaries and services, each with a cargo call of its own, and judges them by cargo's messages.

mod messages;
mod scenarios;
mod services;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub(crate) use scenarios::{ScenarioBuild, build_scenarios};
pub(crate) use services::{build_services, check_services};

#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("cannot run `{program} build`")]
    Start { program: String, source: io::Error },
    #[error("cannot read the messages of `cargo build`")]
    Messages(#[source] io::Error),
    #[error(
        "service `{service}`: no package of this workspace has a binary `{bin}`{}",
        nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
    )]
    NoSuchBin { service: String, bin: String, nearest: Option<String> },
    #[error(
        "service `{service}`: `{bin}` is a binary of several packages ({}); say which with `package`",
        packages.join(", ")
    )]
    AmbiguousBin { service: String, bin: String, packages: Vec<String> },
    #[error("service `{service}`: no package `{package}` in this workspace")]
    NoSuchPackage { service: String, package: String },
    /// Cargo has said why.
    #[error("could not build the binary of: {}", services.join(", "))]
    ServicesFailed { services: Vec<String> },
    #[error("cannot copy {} to {}", from.display(), to.display())]
    Copy { from: PathBuf, to: PathBuf, source: io::Error },
}

impl BuildError {
    /// Whether the configuration is wrong, rather than the code that is built.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(self, Self::NoSuchBin { .. } | Self::AmbiguousBin { .. } | Self::NoSuchPackage { .. })
    }
}
