//! `summary.json`, and the messages of `--message-format json`: one JSON object a line, told apart by `reason`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::event::Warning;
use crate::model::id::RunId;
use crate::model::plan::ScenarioInfo;
use crate::model::stats::{Interval, Phase};
use crate::model::summary::{LatencyMs, Summary};

/// The bytes of `summary.json`: pretty, fields in the order of the contract, a line feed at the end.
pub(crate) fn summary(summary: &Summary) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec_pretty(summary).expect("a summary has string keys alone and no failing field");
    bytes.push(b'\n');
    bytes
}

/// What a run tells while it goes on. The set is closed; as in cargo's messages, `reason` says which one it is, and
/// readers skip reasons that they do not know.
#[derive(Debug, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(crate) enum Message<'a> {
    /// Everything is built; services come up next. Once.
    RunStarted { run: &'a RunId, scenarios: Vec<ScenarioMessage<'a>> },
    /// A phase of one scenario binary begins.
    PhaseStarted { package: &'a str, phase: Phase, scenarios: &'a [String] },
    /// What one second (a phase's last one may be shorter) measured.
    Interval(IntervalMessage<'a>),
    /// A doubt about the measurement, as soon as it is known. All are in the summary again.
    Warning(&'a Warning),
    /// The run is over; `summary` is what `summary.json` holds. Once, last.
    RunFinished { run: &'a RunId, summary: &'a Summary },
}

#[derive(Debug, Serialize)]
pub(crate) struct ScenarioMessage<'a> {
    package: &'a str,
    name: &'a str,
    executor: &'a str,
    /// The load model in one line.
    load: String,
    vus_max: u32,
}

impl<'a> ScenarioMessage<'a> {
    pub(crate) fn of(package: &'a str, info: &'a ScenarioInfo) -> Self {
        Self {
            package,
            name: &info.name,
            executor: info.load.executor(),
            load: info.load.describe(),
            vus_max: info.load.vus_max(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct IntervalMessage<'a> {
    package: &'a str,
    phase: Phase,
    /// From the start of the phase.
    start_ms: u64,
    end_ms: u64,
    scenarios: BTreeMap<&'a str, ScenarioInterval>,
}

/// Figures of this interval alone; requests of all steps together.
#[derive(Debug, Serialize)]
struct ScenarioInterval {
    vus: u32,
    iterations: u64,
    failed_iterations: u64,
    dropped_iterations: u64,
    requests: u64,
    errors: u64,
    rate_limited: u64,
    latency_ms: LatencyMs,
}

impl<'a> IntervalMessage<'a> {
    pub(crate) fn of(package: &'a str, interval: &'a Interval) -> Self {
        let scenarios = interval.scenarios.iter().map(|(name, stats)| {
            let requests = stats.requests();
            let figures = ScenarioInterval {
                vus: stats.vus,
                iterations: stats.iterations,
                failed_iterations: stats.failed_iterations,
                dropped_iterations: stats.dropped_iterations,
                requests: requests.count,
                errors: requests.errors,
                rate_limited: requests.rate_limited,
                latency_ms: LatencyMs::of(&requests.latency),
            };
            (name.as_str(), figures)
        });
        Self {
            package,
            phase: interval.phase,
            start_ms: interval.start_ms,
            end_ms: interval.end_ms,
            scenarios: scenarios.collect(),
        }
    }
}

/// One message as one line, with its line feed.
pub(crate) fn line(message: &Message<'_>) -> String {
    let mut line =
        serde_json::to_string(message).expect("messages have string keys alone and no failing field");
    line.push('\n');
    line
}
