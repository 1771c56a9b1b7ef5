//! Metrics of the author's own: counters, gauges, rates and trends under names that the scenario chooses.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, finite};

/// How a metric's samples are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// The last value.
    Gauge,
    /// The share of samples that held.
    Rate,
    /// A distribution.
    Trend,
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Rate => "rate",
            Self::Trend => "trend",
        })
    }
}

/// What an author records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MetricSample {
    Add(f64),
    /// At so many nanoseconds of a clock that all users of a run share.
    Set {
        value: f64,
        at_ns: u64,
    },
    Held(bool),
    Number(f64),
    /// A duration, in milliseconds.
    Millis(f64),
}

impl MetricSample {
    pub(crate) fn kind(self) -> MetricKind {
        match self {
            Self::Add(_) => MetricKind::Counter,
            Self::Set { .. } => MetricKind::Gauge,
            Self::Held(_) => MetricKind::Rate,
            Self::Number(_) | Self::Millis(_) => MetricKind::Trend,
        }
    }

    /// A number is finite, and what is added is not negative.
    fn makes_sense(self) -> bool {
        match self {
            Self::Add(value) => value.is_finite() && value >= 0.0,
            Self::Set { value, .. } | Self::Number(value) | Self::Millis(value) => value.is_finite(),
            Self::Held(_) => true,
        }
    }
}

/// What is known of a metric's values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MetricValues {
    Counter {
        sum: f64,
    },
    Gauge {
        value: f64,
        at_ns: u64,
        min: f64,
        max: f64,
    },
    Rate {
        held: u64,
        count: u64,
    },
    Trend {
        values: Distribution,
        /// Of the samples, so many were durations: in milliseconds.
        durations: u64,
    },
}

impl MetricValues {
    pub(crate) fn kind(&self) -> MetricKind {
        match self {
            Self::Counter { .. } => MetricKind::Counter,
            Self::Gauge { .. } => MetricKind::Gauge,
            Self::Rate { .. } => MetricKind::Rate,
            Self::Trend { .. } => MetricKind::Trend,
        }
    }
}

/// What is known of one metric. A sample that cannot be taken in is counted, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MetricStats {
    /// Its first sample, or its declaration, says of which kind it is.
    pub(crate) values: Option<MetricValues>,
    /// Not finite, or negative where a counter was added to.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) senseless: u64,
    /// Of another kind than the metric.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) misfits: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl MetricStats {
    /// Takes a sample in, as one of a metric of the kind given.
    pub(crate) fn record(&mut self, kind: MetricKind, sample: MetricSample) {
        if sample.kind() != kind {
            self.misfits += 1;
        } else if !sample.makes_sense() {
            self.senseless += 1;
        } else {
            match (&mut self.values, sample) {
                // The usual case allocates nothing.
                (Some(MetricValues::Trend { values, .. }), MetricSample::Number(value)) => {
                    values.record(value);
                }
                (Some(MetricValues::Trend { values, durations }), MetricSample::Millis(value)) => {
                    values.record(value);
                    *durations += 1;
                }
                _ => self.absorb(&values_of(sample)),
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.senseless += other.senseless;
        self.misfits += other.misfits;
        if let Some(values) = &other.values {
            self.absorb(values);
        }
    }

    fn absorb(&mut self, other: &MetricValues) {
        use MetricValues::{Counter, Gauge, Rate, Trend};
        let Some(own) = &mut self.values else {
            self.values = Some(other.clone());
            return;
        };
        match (own, other) {
            (Counter { sum }, Counter { sum: more }) => *sum = finite(*sum + more),
            (Gauge { value, at_ns, min, max }, Gauge { value: v, at_ns: at, min: low, max: high }) => {
                if *at >= *at_ns {
                    (*value, *at_ns) = (*v, *at);
                }
                (*min, *max) = (min.min(*low), max.max(*high));
            }
            (Rate { held, count }, Rate { held: h, count: c }) => (*held, *count) = (*held + h, *count + c),
            (Trend { values, durations }, Trend { values: more, durations: d }) => {
                values.merge(more);
                *durations += d;
            }
            // Two metrics whose names became one.
            _ => self.misfits += 1,
        }
    }
}

fn values_of(sample: MetricSample) -> MetricValues {
    let trend = |value, durations| {
        let mut values = Distribution::default();
        values.record(value);
        MetricValues::Trend { values, durations }
    };
    match sample {
        MetricSample::Add(sum) => MetricValues::Counter { sum },
        MetricSample::Set { value, at_ns } => MetricValues::Gauge { value, at_ns, min: value, max: value },
        MetricSample::Held(held) => MetricValues::Rate { held: u64::from(held), count: 1 },
        MetricSample::Number(value) => trend(value, 0),
        MetricSample::Millis(value) => trend(value, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: MetricKind, samples: &[MetricSample]) -> MetricStats {
        let mut stats = MetricStats::default();
        samples.iter().for_each(|sample| stats.record(kind, *sample));
        stats
    }

    #[test]
    fn of_a_gauge_the_latest_value_counts_whichever_part_it_comes_from() {
        let set = |value, at_ns| MetricSample::Set { value, at_ns };
        let (a, b) = (
            of(MetricKind::Gauge, &[set(1.0, 10), set(9.0, 40)]),
            of(MetricKind::Gauge, &[set(-5.0, 20), set(3.0, 30)]),
        );
        for (first, second) in [(&a, &b), (&b, &a)] {
            let mut merged = first.clone();
            merged.merge(second);
            let want = MetricValues::Gauge { value: 9.0, at_ns: 40, min: -5.0, max: 9.0 };
            assert_eq!(merged.values, Some(want));
        }
    }

    #[test]
    fn what_makes_no_sense_is_counted_and_changes_no_value() {
        use MetricSample::{Add, Held, Millis, Number, Set};
        let counter =
            of(MetricKind::Counter, &[Add(1.5), Add(-1.0), Add(f64::NAN), Add(f64::INFINITY), Held(true)]);
        assert_eq!(counter.values, Some(MetricValues::Counter { sum: 1.5 }));
        assert_eq!((counter.senseless, counter.misfits), (3, 1));
        let trend = of(MetricKind::Trend, &[Number(-2.0), Number(f64::NAN), Millis(4.0), Add(1.0)]);
        assert_eq!((trend.senseless, trend.misfits), (1, 1));
        let Some(MetricValues::Trend { values, durations }) = trend.values else { panic!("a trend") };
        assert_eq!((values.min(), values.max(), durations), (Some(-2.0), Some(4.0), 1));
        let gauge = of(MetricKind::Gauge, &[Set { value: f64::NEG_INFINITY, at_ns: 1 }]);
        assert_eq!((gauge.values, gauge.senseless), (None, 1));
        assert_eq!(
            of(MetricKind::Rate, &[Held(true), Held(false)]).values,
            Some(MetricValues::Rate { held: 1, count: 2 })
        );
    }

    #[test]
    fn the_wire_keeps_every_kind() {
        use MetricSample::{Add, Held, Number, Set};
        for sample in [Add(0.1), Set { value: 1e308, at_ns: u64::MAX }, Held(true), Number(-0.25)] {
            let mut stats = of(sample.kind(), &[sample]);
            stats.misfits = 2;
            let wire = serde_json::to_string(&stats).unwrap();
            assert_eq!(serde_json::from_str::<MetricStats>(&wire).unwrap(), stats, "{wire}");
        }
    }
}
