//! What a threshold finds in the figures.

use super::condition::{Aggregation, Condition};
use super::metric::{Read, Source, source};
use super::selection::Metric;
use super::{Judgement, Threshold};
use crate::model::custom::{MetricKind, MetricStats, MetricValues};
use crate::model::latency::Latency;
use crate::model::stats::{CheckStats, ScenarioStats, Series, StepKind, StepStats};
use crate::model::summary::millis;
use crate::model::tags::BuiltIn;

/// Where the samples are that a threshold is on.
enum Samples<'s> {
    /// In the rows of the report.
    OfRows,
    /// In a series of their own.
    Of(&'s Series),
    None,
}

impl Threshold {
    /// Judges what one scenario measured in `seconds`. No samples: failed, unless that is allowed.
    pub(crate) fn judge(&self, stats: &ScenarioStats, seconds: f64) -> Judgement {
        let judged = match &self.selection.metric {
            Metric::BuiltIn(number) => match source(*number) {
                Source::Requests(read) => self.work(read, stats, StepKind::Request, seconds),
                Source::Steps(read) => self.work(read, stats, StepKind::Step, seconds),
                Source::Iterations(read) | Source::Scenario(read) => match self.samples(stats) {
                    Samples::OfRows => read.of([stats], &self.condition, seconds),
                    Samples::Of(Series::Iterations(series)) => read.of([&**series], &self.condition, seconds),
                    Samples::Of(_) | Samples::None => read.of([], &self.condition, seconds),
                },
                Source::Checks => self.checks(stats),
            },
            Metric::Custom { name, .. } => match self.samples(stats) {
                Samples::OfRows => self.custom(stats.metrics.get(name), seconds),
                Samples::Of(Series::Metric(metric)) => self.custom(Some(metric), seconds),
                Samples::Of(_) | Samples::None => self.custom(None, seconds),
            },
        };
        judged.unwrap_or_else(|| Judgement {
            observed: None,
            passed: self.text.allow_empty,
            text: "no samples".to_owned(),
        })
    }

    fn samples<'s>(&self, stats: &'s ScenarioStats) -> Samples<'s> {
        match self.series {
            None => Samples::OfRows,
            Some(number) => stats.tagged.get(&number).map_or(Samples::None, Samples::Of),
        }
    }

    /// A count of which nothing came is 0. But a step that never ran has no samples: its name may be misspelt.
    fn work(
        &self,
        read: &Read<StepStats>,
        stats: &ScenarioStats,
        kind: StepKind,
        seconds: f64,
    ) -> Option<Judgement> {
        let step = self.selection.selector.value(BuiltIn::Step);
        let rows = stats.steps.iter().filter(|(key, _)| key.kind == kind);
        let mut rows =
            rows.filter(|(key, _)| step.is_none_or(|step| step == key.name)).map(|(_, row)| row).peekable();
        if step.is_some() && rows.peek().is_none() {
            return None;
        }
        match self.samples(stats) {
            Samples::OfRows => read.of(rows, &self.condition, seconds),
            Samples::Of(Series::Work(series)) => read.of([&**series], &self.condition, seconds),
            Samples::Of(_) | Samples::None => read.of([], &self.condition, seconds),
        }
    }

    fn custom(&self, metric: Option<&MetricStats>, seconds: f64) -> Option<Judgement> {
        match metric.and_then(|metric| metric.values.as_ref()) {
            None if self.selection.metric.kind() == MetricKind::Counter => {
                Some(count(&self.condition, 0, seconds))
            }
            values => custom(values?, &self.condition, seconds),
        }
    }

    fn checks(&self, stats: &ScenarioStats) -> Option<Judgement> {
        let mut all = CheckStats::default();
        match self.samples(stats) {
            Samples::Of(Series::Checks(checks)) => all = *checks,
            Samples::Of(_) | Samples::None => {}
            Samples::OfRows => {
                let check = self.selection.selector.value(BuiltIn::Check);
                let rows =
                    stats.checks.iter().filter(|(name, _)| check.is_none_or(|check| check == name.as_str()));
                rows.for_each(|(_, checks)| all.merge(*checks));
            }
        }
        rate(&self.condition, all.passes, all.passes + all.fails)
    }
}

impl<T> Read<T> {
    /// Of all the rows together; `None` without samples.
    fn of<'s>(
        &self,
        rows: impl IntoIterator<Item = &'s T>,
        condition: &Condition,
        seconds: f64,
    ) -> Option<Judgement>
    where
        T: 's,
    {
        let rows = rows.into_iter();
        match self {
            Self::Count(read) => Some(count(condition, rows.map(read).sum::<u64>(), seconds)),
            Self::Rate(read) => {
                let (part, whole) =
                    rows.map(read).fold((0, 0), |(part, whole), (p, w)| (part + p, whole + w));
                rate(condition, part, whole)
            }
            Self::Trend(read) => {
                let mut all = Latency::default();
                rows.for_each(|row| read(row, &mut all));
                durations(condition, &all)
            }
            Self::Gauge(read) => {
                rows.map(read).last().map(|value| judgement(condition, value, format!("value={value}")))
            }
        }
    }
}

/// Nothing is a count, too.
fn count(condition: &Condition, count: u64, seconds: f64) -> Judgement {
    sum(condition, count as f64, seconds)
}

fn sum(condition: &Condition, sum: f64, seconds: f64) -> Judgement {
    let rate = if seconds > 0.0 { sum / seconds } else { 0.0 };
    match condition.aggregation {
        Aggregation::Rate => judgement(condition, rate, format!("rate={rate:.2}/s ({sum} in {seconds:.1}s)")),
        _ => judgement(condition, sum, format!("count={sum}")),
    }
}

fn rate(condition: &Condition, part: u64, whole: u64) -> Option<Judgement> {
    let rate = part as f64 / whole as f64;
    (whole > 0).then(|| judgement(condition, rate, format!("rate={rate:.4} ({part} of {whole})")))
}

/// What was cut off could have gone on for ever: the threshold must hold for the lowest and the highest value that
/// the aggregate can have.
fn durations(condition: &Condition, latency: &Latency) -> Option<Judgement> {
    let (lowest, highest) = match condition.aggregation {
        Aggregation::Min => latency.min_range(),
        Aggregation::Max => latency.percentile_range(100.0),
        Aggregation::Percentile(percent) => latency.percentile_range(percent),
        _ => latency.mean_range(),
    }?;
    let sign = if highest > lowest { "≥" } else { "=" };
    Some(Judgement {
        observed: Some(millis(lowest)),
        passed: condition.holds_within(lowest / 1e6, highest / 1e6),
        text: format!("{}{sign}{:.1}ms", condition.aggregation, lowest / 1e6),
    })
}

fn custom(values: &MetricValues, condition: &Condition, seconds: f64) -> Option<Judgement> {
    match values {
        MetricValues::Counter { sum: total } => Some(sum(condition, *total, seconds)),
        MetricValues::Gauge { value, .. } => Some(judgement(condition, *value, format!("value={value}"))),
        MetricValues::Rate { held, count } => rate(condition, *held, *count),
        MetricValues::Trend { values, durations } => {
            let value = match condition.aggregation {
                Aggregation::Min => values.min(),
                Aggregation::Max => values.max(),
                Aggregation::Percentile(percent) => values.percentile(percent),
                _ => values.mean(),
            }?;
            let name = condition.aggregation;
            let text =
                if *durations > 0 { format!("{name}={value:.1}ms") } else { format!("{name}={value:.3}") };
            Some(judgement(condition, value, text))
        }
    }
}

fn judgement(condition: &Condition, observed: f64, text: String) -> Judgement {
    Judgement { observed: Some(observed), passed: condition.holds(observed), text }
}
