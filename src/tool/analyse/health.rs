//! What a reader should know of a run's surroundings before believing the figures: who shared the host, what was lost.
//! Whether the generator was fit to measure is judged in [`crate::model::health`].

use std::collections::BTreeMap;

use crate::model::event::Warning;
use crate::model::summary::{Process, Trace};

/// The share of the host's CPU above which programs on it are in each other's way.
const HOST_BUSY: f64 = 0.70;
/// Pressure, and time stolen by the hypervisor, that are worth a word.
const PRESSURE: f64 = 0.10;
const STEAL: f64 = 0.01;
/// Waiting for a CPU as long as having one.
const WAITED: f64 = 1.0;
/// Of all cores: a service that hardly used the CPU has hardly missed it, whatever the ratio.
const USED: f64 = 0.005;
/// The share of traced requests that should be joined with their server spans.
const JOINED: f64 = 0.99;

/// What was seen of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed<'a> {
    /// The services on this host, and what else is watched there.
    pub(crate) services: &'a [Process],
    /// Of all cores, 0 to 1.
    pub(crate) generator_cpu_share: Option<f64>,
    pub(crate) host_cpu_share: Option<f64>,
    /// What the hypervisor took of the host's CPU time, 0 to 1.
    pub(crate) steal_share: Option<f64>,
    /// The part of the time in which something waited for a CPU, 0 to 1.
    pub(crate) cpu_pressure: Option<f64>,
    /// Spans that the scenario process could not deliver.
    pub(crate) spans_dropped: u64,
    /// Spans or traces that the receiver had no room for.
    pub(crate) spans_refused: u64,
    /// OTLP requests that the forwarding target refused or did not take in time.
    pub(crate) not_forwarded: u64,
    /// Exports of metrics by the scenario process that failed.
    pub(crate) metrics_failed: u64,
    /// Spans that came after their trace was taken for complete.
    pub(crate) spans_late: u64,
    pub(crate) trace: Option<&'a Trace>,
}

/// What there is to say of a run.
pub(crate) fn doubts(seen: &Observed<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(cpu_shared(seen));
    warnings.extend(spans_lost(seen));
    warnings.extend(not_forwarded(seen.not_forwarded));
    warnings.extend(metrics_lost(seen.metrics_failed));
    warnings.extend(seen.trace.and_then(|trace| not_joined(trace, seen.spans_late)));
    warnings
}

/// Says who used this host's CPU and who waited for it, once they are in each other's way.
fn cpu_shared(seen: &Observed<'_>) -> Option<Warning> {
    let waited = |process: &Process| process.runqueue_wait_ratio.unwrap_or(0.0);
    let user = seen.services.iter().max_by(|a, b| a.cpu_share.total_cmp(&b.cpu_share))?;
    let users = seen.services.iter().filter(|process| process.cpu_share >= USED);
    let sufferer = users.max_by(|a, b| waited(a).total_cmp(&waited(b)))?;
    let sum: f64 = seen.services.iter().map(|process| process.cpu_share).sum();
    let host = seen.host_cpu_share.unwrap_or(sum + seen.generator_cpu_share.unwrap_or(0.0));
    if host < HOST_BUSY && waited(sufferer) < WAITED {
        return None;
    }
    let own_wait =
        user.runqueue_wait_ratio.map(|ratio| format!(" and waited {} as long for it", times(ratio)));
    let share = percent(user.cpu_share);
    let mut parts =
        vec![format!("{} used {share} of this host's CPU{}", user.name, own_wait.unwrap_or_default())];
    if waited(sufferer) >= WAITED && waited(sufferer) > waited(user) {
        parts.push(format!(
            "{} waited {} as long for it as it had it",
            sufferer.name,
            times(waited(sufferer))
        ));
    }
    parts.extend(seen.generator_cpu_share.map(|share| format!("the generator used {}", percent(share))));
    let pressure = seen.cpu_pressure.filter(|share| *share >= PRESSURE);
    parts.extend(pressure.map(|share| format!("something waited for it {} of the time", percent(share))));
    let steal = seen.steal_share.filter(|share| *share >= STEAL);
    parts.extend(steal.map(|share| format!("the hypervisor gave {} of it to others", percent(share))));
    let text = format!(
        "{}. Services and generator share this machine: compare runs with each other, not these milliseconds with \
         production.",
        parts.join("; ")
    );
    Some(Warning::new("cpu-shared", text))
}

fn spans_lost(seen: &Observed<'_>) -> Option<Warning> {
    let lost = [
        (seen.spans_dropped, "could not be sent by the scenario process"),
        (seen.spans_refused, "found the receiver full"),
    ];
    let parts: Vec<String> = lost
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {} {why}", if *count == 1 { "span" } else { "spans" }))
        .collect();
    (!parts.is_empty()).then(|| {
        let text = format!(
            "{}: where the time went rests on fewer requests. Trace less, with --trace rate:N/s.",
            parts.join(", ")
        );
        Warning::new("spans-dropped", text)
    })
}

fn not_forwarded(requests: u64) -> Option<Warning> {
    let unit = if requests == 1 { "request" } else { "requests" };
    let text = format!(
        "{requests} OTLP {unit} did not reach the endpoint that spans and metrics are forwarded to: it refused them, or \
         did not take them in time. This report has them all the same."
    );
    (requests > 0).then(|| Warning::new("not-forwarded", text))
}

fn metrics_lost(exports: u64) -> Option<Warning> {
    let unit = if exports == 1 { "export" } else { "exports" };
    let text = format!(
        "{exports} {unit} of the scenario process's metrics failed: what is forwarded of them has gaps. The figures of this \
         report do not rest on them."
    );
    (exports > 0).then(|| Warning::new("metrics-lost", text))
}

fn not_joined(trace: &Trace, late: u64) -> Option<Warning> {
    let share = trace.requests_joined_share.filter(|share| *share < JOINED)?;
    let Trace { requests_traced, requests_joined, .. } = trace;
    let text = format!(
        "{requests_joined} of {requests_traced} traced requests ({}) were joined with all their server spans{}.{} \
         A service joins when it takes the `traceparent` of a request over, and exports its spans to the \
         OTEL_EXPORTER_OTLP_ENDPOINT in its environment.",
        // Never rounded up to a share that would be no cause to warn.
        percent((share * 100.0).floor() / 100.0),
        reasons(&trace.not_joined),
        match late {
            0 => String::new(),
            1 => " 1 span came too late.".to_owned(),
            _ => format!(" {late} spans came too late."),
        },
    );
    Some(Warning::new("not-joined", text))
}

fn reasons(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let counts: Vec<_> = counts.into_iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if counts.is_empty() { String::new() } else { format!(" (not: {})", counts.join(", ")) }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn times(ratio: f64) -> String {
    if ratio < 1.95 { format!("{ratio:.1}×") } else { format!("{ratio:.0}×") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, cpu_share: f64, runqueue_wait_ratio: Option<f64>) -> Process {
        Process { name: name.into(), pid: 1, cpu_share, runqueue_wait_ratio, ..Process::default() }
    }

    #[test]
    fn a_shared_cpu_is_told_with_who_used_it_and_who_waited() {
        let message = |services: &[Process]| {
            let seen = Observed { services, generator_cpu_share: Some(0.03), ..Observed::default() };
            doubts(&seen).pop().map(|warning| warning.message)
        };
        let end = ". Services and generator share this machine: compare runs with each other, not these \
                   milliseconds with production.";
        let auth = || service("auth", 0.91, Some(7.2));
        assert_eq!(
            message(&[service("user", 0.01, Some(2.0)), auth()]),
            Some(format!(
                "auth used 91% of this host's CPU and waited 7× as long for it; the generator used 3%{end}"
            ))
        );
        assert_eq!(
            message(&[auth(), service("user", 0.01, Some(12.4))]),
            Some(format!(
                "auth used 91% of this host's CPU and waited 7× as long for it; user waited 12× as long for it \
                 as it had it; the generator used 3%{end}"
            ))
        );
        assert_eq!(
            message(&[service("auth", 0.91, None)]),
            Some(format!("auth used 91% of this host's CPU; the generator used 3%{end}"))
        );
        assert_eq!(message(&[service("auth", 0.3, Some(0.2))]), None);
        assert!(message(&[service("auth", 0.3, Some(1.2))]).is_some_and(|text| text.contains("1.2×")));
        assert_eq!(message(&[]), None);
    }

    #[test]
    fn pressure_and_stolen_time_are_told_with_a_shared_cpu_where_they_matter() {
        let services = [service("auth", 0.91, None)];
        let said = |cpu_pressure, steal_share| {
            let seen = Observed { services: &services, cpu_pressure, steal_share, ..Observed::default() };
            doubts(&seen).pop().unwrap().message
        };
        let begin = "auth used 91% of this host's CPU";
        let text = said(Some(0.85), Some(0.12));
        let words = "something waited for it 85% of the time; the hypervisor gave 12% of it to others";
        assert!(text.starts_with(&format!("{begin}; {words}. Services")), "{text}");
        for (pressure, steal) in [(Some(0.09), Some(0.009)), (None, None)] {
            let text = said(pressure, steal);
            assert!(text.starts_with(&format!("{begin}. Services")), "{text}");
        }
    }

    #[test]
    fn lost_spans_and_requests_that_were_not_joined_are_counted_by_reason() {
        let trace = |joined: u64| Trace {
            requests_traced: 1000,
            requests_joined: joined,
            requests_joined_share: Some(joined as f64 / 1000.0),
            not_joined: [("orphan-span".to_owned(), 4), ("no-server-span".to_owned(), 996 - joined)].into(),
            ..Trace::default()
        };
        let few = trace(989);
        let seen = Observed {
            spans_dropped: 1,
            spans_refused: 7,
            not_forwarded: 2,
            metrics_failed: 3,
            spans_late: 5,
            trace: Some(&few),
            ..Observed::default()
        };
        let warnings = doubts(&seen);
        let codes: Vec<_> = warnings.iter().map(|warning| warning.code.as_str()).collect();
        let all = vec!["spans-dropped", "not-forwarded", "metrics-lost", "not-joined"];
        assert_eq!(codes, all);
        assert!(warnings[0].message.starts_with(
            "1 span could not be sent by the scenario process, 7 spans found the receiver full:"
        ));
        assert!(warnings[1].message.starts_with("2 OTLP requests did not reach"));
        assert!(warnings[2].message.starts_with("3 exports of the scenario process's metrics failed:"));
        assert!(warnings[3].message.starts_with(
            "989 of 1000 traced requests (98%) were joined with all their server spans \
             (not: no-server-span 7, orphan-span 4). 5 spans came too late. A service joins"
        ));
        let seen = Observed { trace: Some(&few), ..Observed::default() };
        assert!(doubts(&seen)[0].message.contains("orphan-span 4). A service joins"));
        let enough = trace(990);
        let seen = Observed { trace: Some(&enough), ..Observed::default() };
        assert!(doubts(&seen).is_empty());
        let nothing = Trace::default();
        assert!(doubts(&Observed { trace: Some(&nothing), ..Observed::default() }).is_empty());
    }
}
