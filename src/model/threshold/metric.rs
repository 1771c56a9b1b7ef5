//! The metrics that thresholds can be on: a row of the table for each.

use crate::model::custom::MetricKind;
use crate::model::latency::Latency;
use crate::model::phases::HttpPhase;
use crate::model::stats::{ScenarioStats, StepStats};
use crate::model::tags::BuiltIn;

/// What is read of figures of one sort.
#[derive(Debug)]
pub(super) enum Read<T> {
    Count(fn(&T) -> u64),
    /// A part, and the whole.
    Rate(fn(&T) -> (u64, u64)),
    /// Adds the durations to those of other rows.
    Trend(fn(&T, &mut Latency)),
    Gauge(fn(&T) -> f64),
}

/// What a metric is read of.
#[derive(Debug)]
pub(super) enum Source {
    Requests(Read<StepStats>),
    /// Timed steps.
    Steps(Read<StepStats>),
    Iterations(Read<ScenarioStats>),
    /// The scenario as a whole: what no tag but `scenario` narrows.
    Scenario(Read<ScenarioStats>),
    Checks,
}

/// Every metric of the tool's own. To add one is to add its row, and its line in docs/scenarios.md.
pub(super) const METRICS: &[(&str, Source)] = &[
    ("http_reqs", Source::Requests(Read::Count(|requests| requests.count))),
    ("http_req_duration", Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.duration)))),
    ("http_req_total", Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.latency)))),
    (
        "http_req_blocked",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Blocked)))),
    ),
    (
        "http_req_dns",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Dns)))),
    ),
    (
        "http_req_connecting",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Connecting)))),
    ),
    (
        "http_req_tls_handshaking",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Tls)))),
    ),
    (
        "http_req_sending",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Sending)))),
    ),
    (
        "http_req_waiting",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Waiting)))),
    ),
    (
        "http_req_receiving",
        Source::Requests(Read::Trend(|requests, sum| sum.merge(&requests.phase(HttpPhase::Receiving)))),
    ),
    ("http_req_retries", Source::Requests(Read::Count(|requests| requests.retries))),
    ("http_req_failed", Source::Requests(Read::Rate(|requests| (requests.failed, requests.count)))),
    (
        "http_req_rate_limited",
        Source::Requests(Read::Rate(|requests| (requests.rate_limited, requests.count))),
    ),
    ("data_sent", Source::Requests(Read::Count(|requests| requests.bytes_sent))),
    ("data_received", Source::Requests(Read::Count(|requests| requests.bytes_received))),
    ("step_duration", Source::Steps(Read::Trend(|steps, sum| sum.merge(&steps.latency)))),
    ("iterations", Source::Iterations(Read::Count(|all| all.iterations))),
    ("iteration_failed", Source::Iterations(Read::Rate(|all| (all.failed_iterations, all.iterations)))),
    ("iteration_duration", Source::Iterations(Read::Trend(|all, sum| sum.merge(&all.iteration)))),
    ("checks", Source::Checks),
    ("iteration_response_time", Source::Scenario(Read::Trend(|all, sum| sum.merge(&all.response)))),
    ("schedule_lag", Source::Scenario(Read::Trend(|all, sum| sum.merge(&all.lag)))),
    ("dropped_iterations", Source::Scenario(Read::Count(|all| all.dropped_iterations))),
    ("vus", Source::Scenario(Read::Gauge(|all| f64::from(all.vus)))),
    ("vus_max", Source::Scenario(Read::Gauge(|all| f64::from(all.vus_max)))),
];

/// The row of a metric, by its number in the table.
pub(super) fn source(number: usize) -> &'static Source {
    &METRICS[number].1
}

impl<T> Read<T> {
    fn kind(&self) -> MetricKind {
        match self {
            Self::Count(_) => MetricKind::Counter,
            Self::Rate(_) => MetricKind::Rate,
            Self::Trend(_) => MetricKind::Trend,
            Self::Gauge(_) => MetricKind::Gauge,
        }
    }
}

impl Source {
    pub(super) fn kind(&self) -> MetricKind {
        match self {
            Self::Requests(read) | Self::Steps(read) => read.kind(),
            Self::Iterations(read) | Self::Scenario(read) => read.kind(),
            Self::Checks => MetricKind::Rate,
        }
    }

    /// The built-in tags that its samples have.
    pub(super) fn tags(&self) -> &'static [BuiltIn] {
        use BuiltIn::{Check, ErrorType, ExpectedResponse, Group, Method, Scenario, Status, Step};
        match self {
            Self::Requests(_) => &[Step, Method, Status, ExpectedResponse, ErrorType, Group, Scenario],
            Self::Steps(_) => &[Step, Group, Scenario],
            Self::Iterations(_) | Self::Scenario(_) => &[Scenario],
            Self::Checks => &[Check, Group, Scenario],
        }
    }

    /// Whether its samples have the author's tags.
    pub(super) fn has_own_tags(&self) -> bool {
        !matches!(self, Self::Scenario(_))
    }

    /// The tag by which rows are told apart: one that needs no series of its own.
    pub(super) fn tag_of_rows(&self) -> Option<BuiltIn> {
        match self {
            Self::Requests(_) | Self::Steps(_) => Some(BuiltIn::Step),
            Self::Checks => Some(BuiltIn::Check),
            Self::Iterations(_) | Self::Scenario(_) => None,
        }
    }
}

/// What can be taken of a metric of this kind.
pub(super) fn aggregations(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "count, rate",
        MetricKind::Gauge => "value",
        MetricKind::Rate => "rate",
        MetricKind::Trend => "avg, min, med, max, p(N)",
    }
}
