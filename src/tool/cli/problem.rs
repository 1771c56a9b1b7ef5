//! Why a command ends without its result: the message, what to do next, and the exit code.

use std::error::Error;

use crate::model::event::FailureKind;
use crate::model::verdict::Outcome;
use crate::tool::build::BuildError;
use crate::tool::config::ConfigError;
use crate::tool::discover::DiscoverError;
use crate::tool::drive::DriveError;
use crate::tool::receive::ReceiveError;
use crate::tool::results::ResultsError;
use crate::tool::scaffold::ScaffoldError;
use crate::tool::services::ServiceError;

#[derive(Debug)]
pub(super) struct Problem {
    pub(super) outcome: Outcome,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl Problem {
    pub(super) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self { outcome, message: message.into(), hint: None }
    }

    fn of(outcome: Outcome, error: &dyn Error, hint: Option<&'static str>) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self { outcome, message, hint }
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        let hint = "`cargo loadtest config` shows every value and where it comes from";
        let hint = matches!(error, ConfigError::UnknownProfile { .. } | ConfigError::Conflict { .. })
            .then_some(hint);
        Self::of(Outcome::Usage, &error, hint)
    }
}

impl From<DiscoverError> for Problem {
    fn from(error: DiscoverError) -> Self {
        Self::of(Outcome::Usage, &error, None)
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        let outcome = if error.is_configuration() { Outcome::Usage } else { Outcome::BuildFailed };
        Self::of(outcome, &error, None)
    }
}

impl From<DriveError> for Problem {
    fn from(error: DriveError) -> Self {
        let (outcome, hint) = match &error {
            DriveError::Version { .. } => {
                (Outcome::Usage, Some("make the dependency's version and that of cargo-loadtest the same"))
            }
            DriveError::Failed { failure, .. } if failure.kind == FailureKind::Configuration => {
                (Outcome::Usage, None)
            }
            DriveError::NoHello { .. } => {
                (Outcome::CouldNotRun, Some("add `harness = false` to its [[bench]] entry in Cargo.toml"))
            }
            _ => (Outcome::CouldNotRun, None),
        };
        Self::of(outcome, &error, hint)
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let outcome = if error.is_configuration() { Outcome::Usage } else { Outcome::CouldNotRun };
        Self::of(outcome, &error, None)
    }
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        let outcome =
            if matches!(error, ReceiveError::Forward(_)) { Outcome::Usage } else { Outcome::CouldNotRun };
        Self::of(outcome, &error, None)
    }
}

impl From<ResultsError> for Problem {
    fn from(error: ResultsError) -> Self {
        Self::of(Outcome::Usage, &error, None)
    }
}

impl From<ScaffoldError> for Problem {
    fn from(error: ScaffoldError) -> Self {
        Self::of(Outcome::Usage, &error, None)
    }
}
