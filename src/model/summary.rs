//! `summary.json`: the schema `loadtest.summary/1`. Fields are only ever added within a schema number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::Warning;
use super::id::RunId;
use super::latency::Latency;
use super::metric_figures::Metric;
use super::stats::{DropCause, StepKind};
use super::verdict::Verdict;

/// The name and number of the schema.
pub(crate) const SCHEMA: &str = "loadtest.summary/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) schema: String,
    pub(crate) run: Run,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) totals: Totals,
    pub(crate) steps: Vec<Step>,
    pub(crate) checks: Vec<Check>,
    /// The author's own; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics: Vec<Metric>,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) attribution: Vec<Attribution>,
    pub(crate) health: Health,
    pub(crate) verdict: Verdict,
    pub(crate) exit_code: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    /// RFC 3339, UTC.
    pub(crate) started_at: String,
    /// Of the load phases, without reference, setup and builds.
    pub(crate) duration_s: f64,
    pub(crate) commit: Option<String>,
    pub(crate) dirty: Option<bool>,
    pub(crate) base_url: Option<String>,
    /// What decides about arrivals at random: `--seed` with it makes the same ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    pub(crate) trace: Trace,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trace {
    pub(crate) iterations_seen: u64,
    pub(crate) iterations_traced: u64,
    /// Requests of traced iterations, and those of them whose whole chain of server spans arrived.
    pub(crate) requests_traced: u64,
    pub(crate) requests_joined: u64,
    /// `requests_joined / requests_traced`; `null` when nothing was traced.
    pub(crate) requests_joined_share: Option<f64>,
    /// Why requests were not joined, and how many for each reason.
    pub(crate) not_joined: BTreeMap<String, u64>,
}

/// Milliseconds; `null` where nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyMs {
    pub(crate) min: Option<f64>,
    pub(crate) mean: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    /// How many were cut off by a timeout or the end; they take part with the time seen of them.
    pub(crate) censored: u64,
    /// The shortest of those: any figure above it may be a lower bound.
    pub(crate) censored_above: Option<f64>,
    /// How many never began: they rank above all others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) never: u64,
    /// The figures (`mean`, `p50` … `p99`, `max`) that are lower bounds, "≥".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) at_least: Vec<String>,
}

impl LatencyMs {
    pub(crate) fn of(latency: &Latency) -> Self {
        let mut at_least = Vec::new();
        let mean = latency.mean_range().map(|(least, most)| {
            if most > least {
                at_least.push("mean".to_owned());
            }
            millis(least)
        });
        let mut at = |name: &str, percent| {
            let quantile = latency.percentile(percent)?;
            if quantile.at_least {
                at_least.push(name.to_owned());
            }
            Some(millis(quantile.nanos as f64))
        };
        let (p50, p90, p95, p99, max) =
            (at("p50", 50.0), at("p90", 90.0), at("p95", 95.0), at("p99", 99.0), at("max", 100.0));
        Self {
            min: latency.min_nanos().map(|n| millis(n as f64)),
            mean,
            p50,
            p90,
            p95,
            p99,
            max,
            censored: latency.censored_count(),
            never: latency.never_count(),
            censored_above: latency.censored_above_nanos().map(|n| millis(n as f64)),
            at_least,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Nanoseconds to milliseconds, to the microsecond: finer digits are noise and make files unreadable.
pub(crate) fn millis(nanos: f64) -> f64 {
    (nanos / 1e3).round() / 1e3
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) executor: String,
    /// The load model in one line.
    pub(crate) load: String,
    pub(crate) duration_s: f64,
    pub(crate) vus_max: u32,
    pub(crate) iterations: u64,
    pub(crate) failed_iterations: u64,
    pub(crate) panics: u64,
    pub(crate) dropped_iterations: u64,
    /// The same by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) dropped: BTreeMap<DropCause, u64>,
    pub(crate) interrupted_iterations: u64,
    pub(crate) errors: Vec<ErrorCount>,
    /// Of a mix: its flows, in the order of its code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) flows: Vec<Flow>,
    pub(crate) iteration_ms: LatencyMs,
    /// Open models only: scheduled instant to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response_ms: Option<LatencyMs>,
    /// Open models only: scheduled instant to actual start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lag_ms: Option<LatencyMs>,
    /// What is in no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warm_up: Option<WarmUp>,
    /// Time that users spent in the loop, and the sum of iteration times: they agree within 2%.
    pub(crate) vu_seconds: f64,
    pub(crate) iteration_seconds: f64,
}

/// One flow of a mix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) iterations: u64,
    pub(crate) failed_iterations: u64,
    pub(crate) interrupted_iterations: u64,
}

/// What a scenario asked to be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WarmUp {
    pub(crate) duration_s: f64,
    pub(crate) iterations: u64,
    pub(crate) dropped_iterations: u64,
    pub(crate) requests: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorCount {
    pub(crate) message: String,
    pub(crate) count: u64,
}

/// Requests only: timed steps have rows of their own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) rate_limited: u64,
    pub(crate) interrupted: u64,
    #[serde(default)]
    pub(crate) retries: u64,
    #[serde(default)]
    pub(crate) generator_errors: u64,
    pub(crate) requests_per_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) package: String,
    pub(crate) scenario: String,
    pub(crate) step: String,
    pub(crate) kind: StepKind,
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) rate_limited: u64,
    pub(crate) interrupted: u64,
    pub(crate) status: BTreeMap<u16, u64>,
    pub(crate) error_types: BTreeMap<String, u64>,
    pub(crate) latency_ms: LatencyMs,
    /// Requests only: first byte sent to last byte received, k6's `http_req_duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<LatencyMs>,
    /// Requests only: what the time of the same requests consists of, by the phases' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) phases_ms: BTreeMap<String, PhaseMs>,
    /// Requests that were sent once more, because the connection was closed before an answer came.
    #[serde(default)]
    pub(crate) retries: u64,
    /// Requests that the generator itself could not send: in no other count.
    #[serde(default)]
    pub(crate) generator_errors: u64,
    /// The same step in the reference phase, one iteration at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unloaded_ms: Option<Unloaded>,
}

/// One phase of a step's requests, in milliseconds. On a kept connection the phases before `sending` are 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseMs {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// How many requests were cut off in this phase or before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) censored: u64,
    /// The figures that are lower bounds, as in [`LatencyMs::at_least`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) at_least: Vec<String>,
}

impl PhaseMs {
    pub(crate) fn of(latency: &Latency) -> Option<Self> {
        let LatencyMs { mean, p50, p95, p99, max, censored, mut at_least, .. } = LatencyMs::of(latency);
        at_least.retain(|figure| figure != "p90");
        Some(Self { mean: mean?, p50: p50?, p95: p95?, p99: p99?, max: max?, censored, at_least })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unloaded {
    pub(crate) p50: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) package: String,
    pub(crate) scenario: String,
    pub(crate) name: String,
    pub(crate) passes: u64,
    pub(crate) fails: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Threshold {
    pub(crate) package: String,
    pub(crate) scenario: String,
    pub(crate) metric: String,
    pub(crate) expression: String,
    /// Milliseconds for durations, else the base unit; `null` without samples.
    pub(crate) observed: Option<f64>,
    pub(crate) passed: bool,
    /// What was observed, for people: `p(95)=1204.8ms`, `rate=0.0000 (0 of 1800)`, `no samples`.
    pub(crate) text: String,
    /// It ended the run so long after the load had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) aborted_at_s: Option<f64>,
}

impl Threshold {
    /// What was observed, and when it ended the run, if it did.
    pub(crate) fn finding(&self) -> String {
        match self.aborted_at_s {
            Some(at) => format!("{}, ended the run after {at:.0} s", self.text),
            None => self.text.clone(),
        }
    }
}

/// Which requests an attribution speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Band {
    /// Around the 95th percentile of all requests of the step.
    P95,
    /// Slower than the median: where the band around p95 holds too few.
    SlowerHalf,
    /// All traced requests: the mean.
    All,
}

/// Where the time of one step went. The operations' `critical_ms` sum to `mean_ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attribution {
    pub(crate) package: String,
    pub(crate) scenario: String,
    pub(crate) step: String,
    pub(crate) kind: StepKind,
    pub(crate) band: Band,
    /// Requests of the step that were traced (with weight).
    pub(crate) requests: u64,
    pub(crate) requests_in_band: u64,
    /// The shortest and the longest duration in the band.
    pub(crate) band_ms: [f64; 2],
    pub(crate) mean_ms: f64,
    /// With fewer than 30 requests there are no shares: empty.
    pub(crate) operations: Vec<Operation>,
    pub(crate) slowest: Vec<SlowTrace>,
}

/// One operation's part of the critical path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// `-` for pseudo-operations.
    pub(crate) service: String,
    pub(crate) operation: String,
    /// `server`, `client`, `internal`, `producer`, `consumer`; `pseudo` for pseudo-operations.
    pub(crate) kind: String,
    /// Weighted mean time on the critical path of a request in the band.
    pub(crate) critical_ms: f64,
    /// Of the band's mean duration, 0 to 1.
    pub(crate) share: f64,
    /// 95% interval of `share`, by bootstrap over iterations.
    pub(crate) share_ci95: [f64; 2],
    /// Spans of the operation per request, weighted mean.
    pub(crate) calls: f64,
    /// Mean critical time of the same operation in the reference phase.
    pub(crate) unloaded_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SlowTrace {
    pub(crate) trace_id: String,
    pub(crate) duration_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Health {
    pub(crate) valid: bool,
    pub(crate) warnings: Vec<Warning>,
    /// CPU of the scenario process and the tool, of what the host has (all cores), 0 to 1.
    pub(crate) generator_cpu_share: Option<f64>,
    pub(crate) host_cpu_share: Option<f64>,
    /// Of the host's CPU time, what the hypervisor gave to others, 0 to 1.
    #[serde(default)]
    pub(crate) steal_share: Option<f64>,
    /// The part of the load's time in which something on the host was ready to run but without a CPU, 0 to 1; `null`
    /// where the kernel has no pressure stall information.
    #[serde(default)]
    pub(crate) cpu_pressure: Option<f64>,
    /// Open models only.
    pub(crate) lateness_p99_ms: Option<f64>,
    pub(crate) processes: Vec<Process>,
}

/// What one process, or those of one name, used of this host during the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Of all cores of the host, 0 to 1.
    pub(crate) cpu_share: f64,
    /// Time that its threads waited for a CPU, over the time they had one; `null` where the OS does not tell.
    pub(crate) runqueue_wait_ratio: Option<f64>,
    pub(crate) rss_bytes_max: Option<u64>,
    /// How many processes were counted together, at most.
    #[serde(default)]
    pub(crate) processes: u32,
    /// `cpu_share` of the second in which it was the highest.
    #[serde(default)]
    pub(crate) cpu_share_max: Option<f64>,
    /// Descriptors open at a time, at most; `null` where the OS does not tell, as of other users' processes.
    #[serde(default)]
    pub(crate) open_files_max: Option<u64>,
}
