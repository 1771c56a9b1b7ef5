//! Samples of the author's own metrics.

use super::origin::{Origin, Sample, What};
use super::requests::matching;
use super::{ScenarioShard, Shard};
use crate::model::custom::{MetricSample, MetricStats};
use crate::model::stats::Series;

impl Shard {
    pub(crate) fn metric(&mut self, slot: usize, name: &str, sample: MetricSample, origin: Origin<'_>) {
        let ScenarioShard { stats, metrics, recording, .. } = &mut self.scenarios[slot];
        let kind = metrics.get(name).copied().or_else(|| {
            let kind = recording.admit_metric(name, sample.kind());
            // Names beyond the limit are not remembered: they may be without number.
            if let Some(kind) = kind {
                metrics.insert(name.to_owned(), kind);
            }
            kind
        });
        match (kind, stats.metrics.get_mut(name)) {
            (Some(kind), Some(metric)) => metric.record(kind, sample),
            (Some(kind), None) => {
                let metric = stats.metrics.entry(name.to_owned()).or_default();
                metric.record(kind, sample);
            }
            (None, _) => {
                let row = format!("(other {}s)", sample.kind());
                stats.metrics.entry(row).or_default().record(sample.kind(), sample);
            }
        }
        let (Some(kind), Some(selectors)) = (kind, recording.metrics.get(name)) else { return };
        let tagged = Sample { origin, tags: &recording.tags, what: What::Plain };
        for number in matching(selectors, &tagged) {
            let series = stats.tagged.entry(number).or_insert_with(|| Series::Metric(MetricStats::default()));
            if let Series::Metric(metric) = series {
                metric.record(kind, sample);
            }
        }
    }
}
