//! How a run ended, and the exit code that says so.

use serde::{Deserialize, Serialize};

/// Why a run did not simply pass. The order is the precedence: of several, the first one listed decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Outcome {
    /// Stopped by SIGINT; results so far were kept.
    Interrupted,
    /// Stopped by SIGTERM; results so far were kept.
    Terminated,
    /// Wrong usage or configuration.
    Usage,
    /// No scenario matched.
    NoMatch,
    /// A build failed.
    BuildFailed,
    /// A scenario, setup or service could not run.
    CouldNotRun,
    /// A threshold failed.
    ThresholdFailed,
    /// The measurement is invalid: the generator was not fit.
    Invalid,
}

impl Outcome {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Usage => 2,
            Self::NoMatch => 4,
            Self::BuildFailed => 101,
            Self::CouldNotRun => 102,
            Self::ThresholdFailed => 99,
            Self::Invalid => 104,
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Interrupted | Self::Terminated => Verdict::Interrupted,
            Self::Invalid => Verdict::Invalid,
            _ => Verdict::Failed,
        }
    }
}

/// `verdict` in `summary.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    #[default]
    Passed,
    Failed,
    Invalid,
    Interrupted,
}

/// The exit code and verdict when all of `outcomes` apply.
pub(crate) fn decide(outcomes: impl IntoIterator<Item = Outcome>) -> (u8, Verdict) {
    outcomes.into_iter().min().map_or((0, Verdict::Passed), |first| (first.code(), first.verdict()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_outcomes_the_documented_one_decides() {
        use Outcome::*;
        let order =
            [Interrupted, Terminated, Usage, NoMatch, BuildFailed, CouldNotRun, ThresholdFailed, Invalid];
        let codes: Vec<u8> = order.iter().map(|outcome| outcome.code()).collect();
        assert_eq!(codes, [130, 143, 2, 4, 101, 102, 99, 104]);
        for (at, first) in order.iter().enumerate() {
            assert_eq!(decide(order[at..].iter().rev().copied()).0, first.code());
        }
        assert_eq!(decide([]), (0, Verdict::Passed));
    }
}
