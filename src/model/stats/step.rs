//! One row of a scenario: a request or a timed step, and checks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::add;
use crate::model::latency::Latency;
use crate::model::phases::{HttpPhase, PhaseTimes, Phases};

/// What kind of work a row measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepKind {
    /// An HTTP request of the built-in client.
    Request,
    /// Any other work, timed by `vu.step`.
    Step,
}

/// A row's name within its scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct StepKey {
    pub(crate) kind: StepKind,
    pub(crate) name: String,
}

/// What is known of one step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StepStats {
    /// Where the step stands in its scenario: the rank of its first appearance.
    pub(crate) rank: u32,
    /// Responses and transport errors; what was interrupted is apart.
    pub(crate) count: u64,
    /// Transport errors, 5xx, and statuses that the step does not expect; 429s are apart.
    pub(crate) errors: u64,
    /// Responses with the status 429.
    pub(crate) rate_limited: u64,
    /// Cut off by the end of the run.
    pub(crate) interrupted: u64,
    /// k6's `http_req_failed`: not 200 to 399 (or not what the request expects), or a transport error.
    pub(crate) failed: u64,
    /// Responses by status.
    pub(crate) status: BTreeMap<u16, u64>,
    /// Transport errors by class (`timeout`, `connect_refused`, …).
    pub(crate) error_types: BTreeMap<String, u64>,
    /// Send called to last body byte, of expected responses; what a timeout or the end cut off is censored.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) latency: Latency,
    /// First byte sent to last byte received, of the same requests. Requests only.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) duration: Latency,
    /// What the time of the same requests consists of.
    #[serde(skip_serializing_if = "Phases::is_empty")]
    pub(crate) phases: Phases,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Requests that were sent once more, because the connection was closed before an answer came.
    pub(crate) retries: u64,
    /// Requests that the generator itself could not send, for want of addresses, descriptors, memory or trust. They say nothing of the
    /// server and are in no other count; their classes are in `error_types`.
    pub(crate) generator_errors: u64,
}

impl StepStats {
    /// Takes the times of an expected response in.
    pub(crate) fn respond(&mut self, total: Duration, phases: &PhaseTimes) {
        self.latency.record(total);
        self.duration.record(phases.duration());
        self.phases.record(phases);
    }

    /// Takes in what was seen of a request that was cut off.
    pub(crate) fn cut_off(&mut self, total: Duration, phases: &PhaseTimes) {
        self.latency.record_censored(total);
        self.duration.record_censored(phases.duration());
        self.phases.record_cut_off(phases);
    }

    /// How long the phase took, over the requests that have a duration.
    pub(crate) fn phase(&self, phase: HttpPhase) -> Latency {
        self.phases.of(phase, self.duration.count())
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let untouched = self.count + self.interrupted + self.generator_errors == 0;
        self.rank = if untouched { other.rank } else { self.rank.min(other.rank) };
        self.count += other.count;
        self.errors += other.errors;
        self.rate_limited += other.rate_limited;
        self.interrupted += other.interrupted;
        self.failed += other.failed;
        add(&mut self.status, &other.status);
        add(&mut self.error_types, &other.error_types);
        self.latency.merge(&other.latency);
        self.duration.merge(&other.duration);
        self.phases.merge(&other.phases);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.retries += other.retries;
        self.generator_errors += other.generator_errors;
    }
}

/// How often a check passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckStats {
    pub(crate) passes: u64,
    pub(crate) fails: u64,
}

impl CheckStats {
    pub(crate) fn add(&mut self, passed: bool) {
        self.passes += u64::from(passed);
        self.fails += u64::from(!passed);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.passes += other.passes;
        self.fails += other.fails;
    }
}
