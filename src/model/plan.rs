//! What the tool tells a scenario process, and what a scenario process can tell of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::custom::MetricKind;
use super::duration;
use super::flow::FlowInfo;
use super::http::HttpPlan;
use super::id::{RunId, TracePrefix};
use super::load::{LoadModel, LoadOverride, Timing};
use super::secret::Secrets;

/// Which iterations are traced.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TracePolicy {
    All,
    Off,
    /// At most this many iterations a second, over all scenarios of the run.
    Rate(f64),
    /// This share of the iterations, 0 to 1.
    Ratio(f64),
}

impl Default for TracePolicy {
    fn default() -> Self {
        Self::Rate(500.0)
    }
}

impl std::str::FromStr for TracePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}` is no trace policy; write all, off, rate:N/s (such as rate:500/s) or ratio:F (0 to 1)"
            )
        };
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            None if text == "off" => Ok(Self::Off),
            Some(("rate", rate)) => {
                let rate: f64 = rate.strip_suffix("/s").ok_or_else(refuse)?.parse().map_err(|_| refuse())?;
                (rate.is_finite() && rate > 0.0).then_some(Self::Rate(rate)).ok_or_else(refuse)
            }
            Some(("ratio", ratio)) => {
                let ratio: f64 = ratio.parse().map_err(|_| refuse())?;
                (0.0..=1.0).contains(&ratio).then_some(Self::Ratio(ratio)).ok_or_else(refuse)
            }
            _ => Err(refuse()),
        }
    }
}

/// The iterations that each scenario runs alone before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReferencePlan {
    pub(crate) iterations: u32,
    #[serde(with = "duration::text")]
    pub(crate) at_most: Duration,
}

impl Default for ReferencePlan {
    fn default() -> Self {
        Self { iterations: 5, at_most: Duration::from_secs(3) }
    }
}

/// What one scenario process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunPlan {
    pub(crate) run: RunId,
    pub(crate) trace_prefix: TracePrefix,
    /// The scenarios of the binary that run.
    pub(crate) scenarios: Vec<String>,
    pub(crate) base_url: Option<String>,
    /// What `vu.env(key)` answers.
    pub(crate) env: BTreeMap<String, String>,
    /// Values that must get into no event and no span.
    #[serde(default)]
    pub(crate) secrets: Secrets,
    /// How HTTP is spoken, around what the scenarios say themselves.
    #[serde(default)]
    pub(crate) http: HttpPlan,
    /// By scenario name; `*` is every scenario that has none of its own.
    pub(crate) overrides: BTreeMap<String, LoadOverride>,
    /// `None`: each scenario's own, or the default.
    pub(crate) reference: Option<ReferencePlan>,
    pub(crate) trace: TracePolicy,
    /// Base URL of the OTLP/HTTP receiver that spans and metrics go to; `None`: nothing is exported.
    pub(crate) otlp_endpoint: Option<String>,
    /// Resource attributes beyond the process's own, such as the commit.
    pub(crate) resource: BTreeMap<String, String>,
    /// Decides about everything random that is to come again; `None`: as the run's id says.
    #[serde(default)]
    pub(crate) seed: Option<u64>,
    /// Worker threads; `None`: one for each core that is to be had.
    pub(crate) workers: Option<usize>,
}

impl RunPlan {
    /// What decides about everything random that is to come again.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| self.run.seed())
    }
}

/// What a scenario says of itself when asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioInfo {
    pub(crate) name: String,
    pub(crate) load: LoadModel,
    #[serde(default)]
    pub(crate) timing: Timing,
    pub(crate) reference: ReferencePlan,
    /// Of a mix: its flows and their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) flows: Vec<FlowInfo>,
    /// As written; they were valid when the listing was made.
    pub(crate) thresholds: Vec<ThresholdText>,
    /// What thresholds may be on beyond the built-in.
    #[serde(default)]
    pub(crate) declared: Declared,
}

/// What a scenario says beforehand of its own metrics and tags, so that a threshold on one of them can be told from one
/// that is misspelt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Declared {
    pub(crate) metrics: BTreeMap<String, MetricKind>,
    /// Names of tags.
    pub(crate) tags: BTreeSet<String>,
    /// Of a mix: what its tag `flow` can be.
    pub(crate) flows: BTreeSet<String>,
}

impl ScenarioInfo {
    /// Its load in one line, e.g. `constant-vus 5 for 10s, after login`.
    pub(crate) fn describe(&self) -> String {
        self.load.describe() + &self.timing.describe()
    }
}

/// A threshold as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThresholdText {
    pub(crate) metric: String,
    pub(crate) expression: String,
    /// It ends the run as soon as it fails.
    #[serde(default)]
    pub(crate) abort_on_fail: bool,
    /// How long the load has to have run before it can end the run.
    #[serde(default, with = "duration::text")]
    pub(crate) delay_abort_eval: Duration,
    /// Without samples it has not failed.
    #[serde(default)]
    pub(crate) allow_empty: bool,
}

impl fmt::Display for ThresholdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.metric, self.expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_policies_are_read_and_nonsense_is_refused() {
        for (text, want) in [
            ("all", TracePolicy::All),
            ("off", TracePolicy::Off),
            ("rate:500/s", TracePolicy::Rate(500.0)),
            ("ratio:0.1", TracePolicy::Ratio(0.1)),
        ] {
            assert_eq!(text.parse(), Ok(want));
        }
        for text in ["", "on", "rate:5", "rate:0/s", "rate:inf/s", "ratio:2", "ratio:NaN"] {
            assert!(text.parse::<TracePolicy>().unwrap_err().contains("trace policy"));
        }
    }
}
