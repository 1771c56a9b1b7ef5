//! The author's own metrics in the summary: their figures, their lines in the report, and doubts about them.

use serde::{Deserialize, Serialize};

use super::custom::{MetricStats, MetricValues};
use super::distribution::Distribution;
use super::event::Warning;
use super::stats::ScenarioStats;

/// One of `metrics[]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) package: String,
    pub(crate) scenario: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Samples that were not taken in: not finite, or negative where a counter was added to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) senseless: Option<u64>,
    /// Samples that were not taken in: of another kind than the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) misfits: Option<u64>,
}

/// What is known of it, by its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Figures {
    Counter {
        sum: f64,
        per_s: f64,
    },
    Gauge {
        value: f64,
        min: f64,
        max: f64,
    },
    Rate {
        rate: f64,
        held: u64,
        count: u64,
    },
    Trend {
        /// `ms` where all samples were durations.
        unit: Option<String>,
        count: u64,
        min: f64,
        mean: f64,
        p50: f64,
        p90: f64,
        p95: f64,
        p99: f64,
        max: f64,
    },
    /// Nothing that could be taken in.
    Empty,
}

impl Figures {
    fn of(stats: &MetricStats, seconds: f64) -> Self {
        match &stats.values {
            None => Self::Empty,
            Some(MetricValues::Counter { sum }) => {
                Self::Counter { sum: *sum, per_s: if seconds > 0.0 { sum / seconds } else { 0.0 } }
            }
            Some(MetricValues::Gauge { value, min, max, .. }) => {
                Self::Gauge { value: *value, min: *min, max: *max }
            }
            Some(MetricValues::Rate { held, count }) => {
                Self::Rate { rate: *held as f64 / (*count).max(1) as f64, held: *held, count: *count }
            }
            Some(MetricValues::Trend { values, durations }) => Self::trend(values, *durations),
        }
    }

    fn trend(values: &Distribution, durations: u64) -> Self {
        let at = |percent| values.percentile(percent).unwrap_or_default();
        Self::Trend {
            unit: (durations > 0 && durations == values.count()).then(|| "ms".to_owned()),
            count: values.count(),
            min: values.min().unwrap_or_default(),
            mean: values.mean().unwrap_or_default(),
            p50: at(50.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            max: values.max().unwrap_or_default(),
        }
    }

    /// The kind, and the figures in words.
    pub(crate) fn cells(&self) -> [String; 2] {
        let (kind, words) = match self {
            Self::Counter { sum, per_s } => {
                ("counter", format!("{} in all, {}/s", short(*sum), short(*per_s)))
            }
            Self::Gauge { value, min, max } => {
                ("gauge", format!("{}, {} to {}", short(*value), short(*min), short(*max)))
            }
            Self::Rate { rate, held, count } => ("rate", format!("{:.2}%, {held} of {count}", rate * 100.0)),
            Self::Trend { unit, count, min, mean, p50, p95, p99, max, .. } => {
                let unit = unit.as_deref().map(|unit| format!(" {unit}")).unwrap_or_default();
                let [min, mean, p50, p95, p99, max] =
                    [min, mean, p50, p95, p99, max].map(|value| short(*value));
                let figures = format!("min {min}, avg {mean}, p50 {p50}, p95 {p95}, p99 {p99}, max {max}");
                ("trend", format!("{figures}{unit} of {count}"))
            }
            Self::Empty => ("-", "no samples".to_owned()),
        };
        [kind.to_owned(), words]
    }
}

/// To three digits behind the point at most, and no more than are needed.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The metrics of one scenario, which was measured for `seconds`.
pub(crate) fn of<'s>(
    package: &'s str,
    scenario: &'s str,
    stats: &'s ScenarioStats,
    seconds: f64,
) -> impl Iterator<Item = Metric> + 's {
    let count = |count: u64| (count > 0).then_some(count);
    stats.metrics.iter().map(move |(name, metric)| Metric {
        package: package.to_owned(),
        scenario: scenario.to_owned(),
        name: name.clone(),
        figures: Figures::of(metric, seconds),
        senseless: count(metric.senseless),
        misfits: count(metric.misfits),
    })
}

/// What was recorded in vain.
pub(crate) fn doubts(metric: &Metric) -> Option<Warning> {
    let senseless = metric.senseless.map(|count| {
        format!("{count} of its samples were not finite, or negative where a counter was added to")
    });
    let misfits = metric.misfits.map(|count| {
        format!("{count} samples were of another kind than its first one, or its declaration: give each kind a name of its own")
    });
    let reasons: Vec<String> = senseless.into_iter().chain(misfits).collect();
    (!reasons.is_empty()).then(|| {
        let message = format!(
            "the metric `{}` of {}: {}; none of them counts",
            metric.name,
            metric.scenario,
            reasons.join("; ")
        );
        Warning::new("metric-samples", message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::custom::MetricSample::{self, Add, Held, Millis, Number, Set};
    use super::*;

    fn metric(samples: &[MetricSample]) -> Metric {
        let mut stats = ScenarioStats::default();
        let own = stats.metrics.entry("m".to_owned()).or_default();
        samples.iter().for_each(|sample| own.record(samples[0].kind(), *sample));
        of("p", "s", &stats, 4.0).next().unwrap()
    }

    #[test]
    fn each_kind_has_its_figures_in_the_summary_and_its_words_in_the_report() {
        for (samples, json, words) in [
            (&[Add(1.5), Add(2.5)][..], r#""kind":"counter","sum":4.0,"per_s":1.0"#, "4 in all, 1/s"),
            (
                &[Set { value: 2.0, at_ns: 1 }, Set { value: -1.0, at_ns: 2 }],
                r#""kind":"gauge","value":-1.0,"min":-1.0,"max":2.0"#,
                "-1, -1 to 2",
            ),
            (&[Held(true), Held(false)], r#""kind":"rate","rate":0.5,"held":1,"count":2"#, "50.00%, 1 of 2"),
            (
                &[Millis(8.0), Millis(8.0)],
                r#""kind":"trend","unit":"ms","count":2,"min":8.0,"mean":8.0,"p50":8.0"#,
                "min 8, avg 8, p50 8, p95 8, p99 8, max 8 ms of 2",
            ),
            (
                &[Number(-0.25), Number(0.75)],
                r#""unit":null,"count":2,"min":-0.25,"mean":0.25,"p50":-0.25"#,
                "min -0.25, avg 0.25, p50 -0.25, p95 0.75, p99 0.75, max 0.75 of 2",
            ),
            (&[Add(f64::NAN)], r#""kind":"empty","senseless":1"#, "no samples"),
        ] {
            let metric = metric(samples);
            let text = serde_json::to_string(&metric).unwrap();
            assert!(text.contains(json), "{text}");
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
            assert_eq!(metric.figures.cells()[1], words);
        }
    }

    #[test]
    fn samples_that_do_not_count_are_told() {
        let message = doubts(&metric(&[Add(1.0), Add(-1.0), Held(true)])).unwrap().message;
        assert!(message.starts_with("the metric `m` of s: 1 of its samples were not finite"), "{message}");
        assert!(
            message.contains("1 samples were of another kind") && message.ends_with("none of them counts")
        );
        assert_eq!(doubts(&metric(&[Add(1.0)])), None);
    }
}
