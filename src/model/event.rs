//! What a scenario process tells while it runs: a closed set.

use serde::{Deserialize, Serialize};

use super::health::Signs;
use super::plan::{ScenarioInfo, ThresholdText};
use super::stats::{Interval, Phase};

/// From the scenario process to the tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The answer to a request for a listing.
    Listing(Vec<ScenarioInfo>),
    /// A phase begins, for the scenarios named.
    PhaseStarted { phase: Phase, scenarios: Vec<String>, unix_ns: u64 },
    /// What was measured in the last second (a phase's last interval may be shorter).
    Interval(Interval),
    /// A threshold ends the run: it failed, and is one that is to.
    Aborted(Aborted),
    /// A doubt about the measurement or a word of advice.
    Warning(Warning),
    /// The load could not be run: a setup failed, or the plan cannot be carried out.
    Failed(Failure),
    /// Everything was measured and exported; the process ends now.
    Finished(Finished),
}

/// Which threshold ended the run, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aborted {
    pub(crate) scenario: String,
    pub(crate) threshold: ThresholdText,
    /// From the start of the load.
    pub(crate) at_ms: u64,
    /// What was observed then, for people.
    pub(crate) text: String,
}

/// A doubt about a measurement, with advice. Codes are stable names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Warning {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Warning {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

/// Why a scenario process could not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

/// Which exit code a [`Failure`] leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FailureKind {
    /// The scenario's code or the plan contradicts itself: exit code 2.
    Configuration,
    /// A setup failed or something is missing at run time: exit code 102.
    Run,
}

/// The last word of a scenario process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Finished {
    /// The load was cut short by a stop from outside.
    pub(crate) interrupted: bool,
    pub(crate) spans_exported: u64,
    /// Spans that found the export queue full or could not be delivered.
    pub(crate) spans_dropped: u64,
    pub(crate) metrics_failed: u64,
    /// What the process saw of itself during the load.
    pub(crate) signs: Signs,
}
