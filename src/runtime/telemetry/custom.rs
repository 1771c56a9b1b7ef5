//! The author's own metrics as OTLP, under `loadtest.custom.`.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1 as otlp;

use super::resource::text;
use crate::model::custom::{MetricKind, MetricValues};
use crate::model::distribution::Distribution;
use crate::model::semconv;
use crate::model::stats::ScenarioStats;

/// Sixteen buckets for each doubling: a hundred octaves and both signs stay small.
const SCALE: i32 = 4;

/// Every metric of every scenario, cumulative.
pub(super) fn metrics(
    scenarios: &BTreeMap<String, ScenarioStats>,
    start_ns: u64,
    now_ns: u64,
) -> Vec<otlp::Metric> {
    let mut all: BTreeMap<(String, &'static str), (MetricKind, Points)> = BTreeMap::new();
    for (scenario, stats) in scenarios {
        let here = [text(semconv::SCENARIO, scenario)];
        for (name, metric) in &stats.metrics {
            let Some(values) = &metric.values else { continue };
            let times = Times { start_ns, now_ns };
            let key = (sanitised(name), unit(values));
            let (kind, points) = all.entry(key).or_insert_with(|| (values.kind(), Points::default()));
            // Two scenarios may use one name differently; only points of one kind make a metric.
            if *kind == values.kind() {
                points.add(&here, values, times);
            }
        }
    }
    all.into_iter().map(|((name, unit), (kind, points))| points.metric(name, unit, kind)).collect()
}

#[derive(Debug, Clone, Copy)]
struct Times {
    start_ns: u64,
    now_ns: u64,
}

#[derive(Default)]
struct Points {
    numbers: Vec<otlp::NumberDataPoint>,
    histograms: Vec<otlp::ExponentialHistogramDataPoint>,
}

impl Points {
    fn add(&mut self, here: &[KeyValue], values: &MetricValues, times: Times) {
        use otlp::number_data_point::Value::{AsDouble, AsInt};
        let number = |more: &[KeyValue], value| otlp::NumberDataPoint {
            attributes: [here, more].concat(),
            start_time_unix_nano: times.start_ns,
            time_unix_nano: times.now_ns,
            value: Some(value),
            ..Default::default()
        };
        match values {
            MetricValues::Counter { sum } => self.numbers.push(number(&[], AsDouble(*sum))),
            MetricValues::Gauge { value, .. } => self.numbers.push(number(&[], AsDouble(*value))),
            MetricValues::Rate { held, count } => {
                for (outcome, count) in [("held", *held), ("not-held", count - held)] {
                    let more = [text("loadtest.outcome", outcome)];
                    self.numbers.push(number(&more, AsInt(count as i64)));
                }
            }
            MetricValues::Trend { values, .. } => self.histograms.push(histogram(here, values, times)),
        }
    }

    fn metric(self, name: String, unit: &str, kind: MetricKind) -> otlp::Metric {
        use otlp::metric::Data;
        let aggregation_temporality = otlp::AggregationTemporality::Cumulative as i32;
        let data = match kind {
            MetricKind::Counter | MetricKind::Rate => Data::Sum(otlp::Sum {
                data_points: self.numbers,
                aggregation_temporality,
                is_monotonic: true,
            }),
            MetricKind::Gauge => Data::Gauge(otlp::Gauge { data_points: self.numbers }),
            MetricKind::Trend => Data::ExponentialHistogram(otlp::ExponentialHistogram {
                data_points: self.histograms,
                aggregation_temporality,
            }),
        };
        otlp::Metric {
            name,
            unit: unit.to_owned(),
            description: "A metric of the scenario's own.".to_owned(),
            data: Some(data),
            ..Default::default()
        }
    }
}

fn unit(values: &MetricValues) -> &'static str {
    match values {
        MetricValues::Trend { values, durations } if *durations > 0 && *durations == values.count() => "ms",
        _ => "1",
    }
}

/// A name as OpenTelemetry allows it: letters, digits, `_`, `.`, `-` and `/`, at most 255.
fn sanitised(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    let name = name.chars().map(|c| if fits(c) { c } else { '_' });
    "loadtest.custom.".chars().chain(name).take(255).collect()
}

fn histogram(here: &[KeyValue], values: &Distribution, times: Times) -> otlp::ExponentialHistogramDataPoint {
    otlp::ExponentialHistogramDataPoint {
        attributes: here.to_vec(),
        start_time_unix_nano: times.start_ns,
        time_unix_nano: times.now_ns,
        count: values.count(),
        sum: Some(values.sum()),
        scale: SCALE,
        zero_count: values.buckets().filter(|(value, _)| *value == 0.0).map(|(_, count)| count).sum(),
        positive: Some(buckets(values.buckets().filter(|(value, _)| *value > 0.0))),
        negative: Some(buckets(
            values.buckets().filter(|(value, _)| *value < 0.0).map(|(value, count)| (-value, count)),
        )),
        min: values.min(),
        max: values.max(),
        ..Default::default()
    }
}

/// Bucket i holds (b^i, b^(i+1)] with b = 2^(2^-scale).
fn buckets(magnitudes: impl Iterator<Item = (f64, u64)>) -> otlp::exponential_histogram_data_point::Buckets {
    let index = |value: f64| (value.log2() * f64::from(SCALE).exp2()).ceil() as i32 - 1;
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for (value, count) in magnitudes {
        *counts.entry(index(value)).or_default() += count;
    }
    let (Some(first), Some(last)) = (counts.keys().next().copied(), counts.keys().last().copied()) else {
        return otlp::exponential_histogram_data_point::Buckets::default();
    };
    otlp::exponential_histogram_data_point::Buckets {
        offset: first,
        bucket_counts: (first..=last).map(|index| counts.get(&index).copied().unwrap_or(0)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use otlp::metric::Data;
    use otlp::number_data_point::Value;

    use super::*;
    use crate::model::custom::MetricSample;

    #[test]
    fn each_kind_is_the_point_that_opentelemetry_has_for_it() {
        let mut stats = ScenarioStats::default();
        for (name, sample) in [
            ("orders placed", MetricSample::Add(2.5)),
            ("queue", MetricSample::Set { value: -1.0, at_ns: 1 }),
            ("hits", MetricSample::Held(true)),
            ("render", MetricSample::Millis(3.0)),
            ("size", MetricSample::Number(-8.0)),
            ("size", MetricSample::Number(0.0)),
            ("size", MetricSample::Number(9.0)),
            ("size", MetricSample::Number(9.0)),
        ] {
            stats.metrics.entry(name.to_owned()).or_default().record(sample.kind(), sample);
        }
        let metrics = metrics(&[("s".to_owned(), stats)].into(), 1, 2);
        let names: Vec<(&str, &str)> =
            metrics.iter().map(|metric| (metric.name.as_str(), metric.unit.as_str())).collect();
        assert_eq!(
            names,
            [
                ("loadtest.custom.hits", "1"),
                ("loadtest.custom.orders_placed", "1"),
                ("loadtest.custom.queue", "1"),
                ("loadtest.custom.render", "ms"),
                ("loadtest.custom.size", "1"),
            ]
        );
        let Some(Data::Sum(hits)) = &metrics[0].data else { panic!("{:?}", metrics[0]) };
        let counts: Vec<_> = hits.data_points.iter().map(|point| point.value).collect();
        assert_eq!(counts, [Some(Value::AsInt(1)), Some(Value::AsInt(0))]);
        let Some(Data::Sum(orders)) = &metrics[1].data else { panic!("{:?}", metrics[1]) };
        assert_eq!((orders.is_monotonic, orders.data_points[0].value), (true, Some(Value::AsDouble(2.5))));
        let Some(Data::Gauge(queue)) = &metrics[2].data else { panic!("{:?}", metrics[2]) };
        assert_eq!(queue.data_points[0].value, Some(Value::AsDouble(-1.0)));
        let Some(Data::ExponentialHistogram(size)) = &metrics[4].data else { panic!("{:?}", metrics[4]) };
        let point = &size.data_points[0];
        assert_eq!((point.count, point.zero_count, point.sum), (4, 1, Some(10.0)));
        let (positive, negative) = (point.positive.as_ref().unwrap(), point.negative.as_ref().unwrap());
        assert_eq!((&positive.bucket_counts[..], &negative.bucket_counts[..]), (&[2][..], &[1][..]));
        let base = 2_f64.powf(2_f64.powi(-SCALE));
        let lower = base.powi(positive.offset);
        assert!(lower < 9.0 && 9.0 <= lower * base * 1.001, "{lower}");
    }

    #[test]
    fn names_are_made_fit() {
        assert_eq!(sanitised("a/b-c.d é"), "loadtest.custom.a/b-c.d__");
        assert_eq!(sanitised(&"x".repeat(300)).len(), 255);
    }
}
