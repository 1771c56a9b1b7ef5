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
            load: info.describe(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;

    #[test]
    fn a_summary_reads_back_the_same() {
        let written = sample::summary();
        let bytes = summary(&written);
        assert!(bytes.ends_with(b"}\n"));
        assert_eq!(serde_json::from_slice::<Summary>(&bytes).unwrap(), written);
    }

    /// The contract: its fields, in this order, at least. Adding one is allowed; losing or renaming one is not.
    #[test]
    fn the_fields_of_the_contract_are_there() {
        let value: serde_json::Value = serde_json::from_slice(&summary(&sample::summary())).unwrap();
        for (pointer, fields) in [
            ("", "schema run scenarios totals steps checks thresholds attribution health verdict exit_code"),
            ("/run", "id started_at duration_s commit dirty base_url trace"),
            ("/run/trace", "iterations_seen iterations_traced requests_joined_share"),
            (
                "/scenarios/0",
                "name package executor vus_max iterations failed_iterations panics dropped_iterations \
                 interrupted_iterations errors iteration_ms",
            ),
            ("/totals", "requests errors rate_limited interrupted requests_per_s"),
            (
                "/steps/0",
                "package scenario step kind count errors rate_limited interrupted status error_types latency_ms \
                 unloaded_ms",
            ),
            ("/steps/0/latency_ms", "min mean p50 p90 p95 p99 max censored censored_above"),
            ("/steps/0/unloaded_ms", "p50"),
            ("/checks/0", "package scenario name passes fails"),
            ("/thresholds/0", "package scenario metric expression observed passed"),
            (
                "/attribution/0",
                "package scenario step band slowest operations requests requests_in_band band_ms mean_ms",
            ),
            (
                "/attribution/0/operations/0",
                "service operation kind critical_ms share share_ci95 calls unloaded_ms",
            ),
            ("/attribution/0/slowest/0", "trace_id duration_ms"),
            (
                "/health",
                "valid warnings generator_cpu_share host_cpu_share steal_share cpu_pressure lateness_p99_ms processes",
            ),
            ("/health/warnings/0", "code message"),
            (
                "/health/processes/0",
                "name pid cpu_share runqueue_wait_ratio rss_bytes_max processes cpu_share_max open_files_max",
            ),
        ] {
            let object = value.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
            for field in fields.split_whitespace() {
                assert!(object.get(field).is_some(), "{pointer}/{field}");
            }
        }
        let text = String::from_utf8(summary(&sample::summary())).unwrap();
        for word in
            [r#""schema": "loadtest.summary/1""#, r#""kind": "request""#, r#""band": "p95""#, r#""201": 600"#]
        {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn each_message_is_one_line_with_its_reason() {
        let (infos, intervals, written) = (sample::infos(), sample::intervals(), sample::summary());
        let scenarios = infos.iter().map(|info| ScenarioMessage::of("p", info)).collect();
        let names = vec!["auth".to_owned()];
        let warning = Warning::new("code", "two\nlines");
        let lines = [
            Message::RunStarted { run: &written.run.id, scenarios },
            Message::PhaseStarted { package: "p", phase: Phase::Load, scenarios: &names },
            Message::Interval(IntervalMessage::of("p", &intervals[1])),
            Message::Warning(&warning),
            Message::RunFinished { run: &written.run.id, summary: &written },
        ]
        .map(|message| line(&message));
        for (line, reason) in
            lines.iter().zip(["run-started", "phase-started", "interval", "warning", "run-finished"])
        {
            assert_eq!(line.matches('\n').count(), 1);
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["reason"], reason);
        }
        insta::assert_snapshot!(lines[..4].concat());
    }
}
