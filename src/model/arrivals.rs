//! What is said of open models beside the table: response times from when iterations were due, what was dropped and why,
//! and what a warm-up left out.

use super::load::users;
use super::stats::DropCause;
use super::summary::{LatencyMs, Scenario, Summary};
use super::table::Labels;

impl DropCause {
    /// In few words.
    fn words(self) -> &'static str {
        match self {
            Self::Pool => "no free user",
            Self::Generator => "generator did not run",
        }
    }
}

/// `12 (no free user), 3 (generator did not run)`; `None` where nothing was dropped.
pub(crate) fn dropped(scenario: &Scenario) -> Option<String> {
    let causes: Vec<String> =
        scenario.dropped.iter().map(|(cause, count)| format!("{count} ({})", cause.words())).collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

/// A few lines for each scenario with an open model or a warm-up; empty where there is none.
pub(crate) fn section(summary: &Summary) -> String {
    let labels = Labels::of(summary);
    let mut out = String::new();
    for scenario in &summary.scenarios {
        let lines = lines(scenario);
        if !lines.is_empty() {
            out += &format!("  {}\n", labels.label(&scenario.package, &scenario.name, &scenario.load));
            lines.iter().for_each(|line| out += &format!("    {line}\n"));
        }
    }
    out
}

fn lines(scenario: &Scenario) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(response), Some(lag)) = (&scenario.response_ms, &scenario.lag_ms) {
        lines.push(format!("response, from when it was due: {}", percentiles(response)));
        lines.push(format!("duration, from when it began:   {}", percentiles(&scenario.iteration_ms)));
        lines.push(format!("begun later than due:           {}", percentiles(lag)));
        let dropped = dropped(scenario).unwrap_or_else(|| "none".to_owned());
        lines.push(format!("dropped: {dropped}; at most {} at a time", users(scenario.vus_max)));
    }
    if let Some(warm_up) = &scenario.warm_up {
        let dropped = match warm_up.dropped_iterations {
            0 => String::new(),
            n => format!(", {n} dropped"),
        };
        lines.push(format!(
            "warm-up {}s: {} iterations with {} requests not counted{dropped}",
            warm_up.duration_s, warm_up.iterations, warm_up.requests
        ));
    }
    lines
}

fn percentiles(latency: &LatencyMs) -> String {
    let part = |name: &str, value: Option<f64>| {
        let bound = if latency.at_least.iter().any(|known| known == name) { "≥" } else { "" };
        value.map_or_else(|| format!("{name} -"), |ms| format!("{name} {bound}{ms:.1} ms"))
    };
    [part("p50", latency.p50), part("p95", latency.p95), part("p99", latency.p99)].join("  ")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::summary::WarmUp;
    use super::*;

    #[test]
    fn open_models_and_warm_ups_have_their_lines_and_others_none() {
        let mut summary = sample::summary();
        assert_eq!(section(&summary), "");
        let scenario = &mut summary.scenarios[0];
        scenario.load = "constant-arrival-rate 100/s for 30s, up to 50 users".into();
        scenario.vus_max = 41;
        let ms = |p50, p95, p99| LatencyMs {
            p50: Some(p50),
            p95: Some(p95),
            p99: Some(p99),
            at_least: vec!["p99".into()],
            ..LatencyMs::default()
        };
        scenario.response_ms = Some(ms(1.0, 20.0, 300.0));
        scenario.iteration_ms = LatencyMs { at_least: vec![], ..ms(0.95, 19.0, 280.04) };
        scenario.lag_ms = Some(LatencyMs::default());
        scenario.dropped = [(DropCause::Pool, 12), (DropCause::Generator, 3)].into();
        scenario.warm_up =
            Some(WarmUp { duration_s: 2.5, iterations: 250, dropped_iterations: 4, requests: 500 });
        let wanted = "  constant-arrival-rate 100/s for 30s, up to 50 users
    response, from when it was due: p50 1.0 ms  p95 20.0 ms  p99 ≥300.0 ms
    duration, from when it began:   p50 0.9 ms  p95 19.0 ms  p99 280.0 ms
    begun later than due:           p50 -  p95 -  p99 -
    dropped: 12 (no free user), 3 (generator did not run); at most 41 users at a time
    warm-up 2.5s: 250 iterations with 500 requests not counted, 4 dropped
";
        assert_eq!(section(&summary), wanted);
    }
}
