//! A distribution of plain numbers of either sign: buckets by the leading bits of the number, and the exact extremes and
//! sum beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bits of the significand that tell buckets apart: a bucket is at most 2^-10, 0.098%, of its value wide.
const BITS: u32 = 10;
const SHIFT: u32 = 52 - BITS;
/// Magnitudes outside of this range share its last buckets, so that no input can make buckets without end.
const SMALLEST: f64 = 1.0 / (1_u64 << 40) as f64;
const LARGEST: f64 = (1_u128 << 80) as f64;

/// A distribution of numbers. Its size does not grow with the number of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Distribution {
    /// By signed index; 0 holds what is too small to tell from nought.
    #[serde(with = "pairs")]
    buckets: BTreeMap<i32, u64>,
    count: u64,
    sum: f64,
    /// Zero, not infinity, while there is nothing: JSON has no infinity.
    min: f64,
    max: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: BTreeMap::new(), count: 0, sum: 0.0, min: 0.0, max: 0.0 }
    }
}

impl Distribution {
    /// Records a finite number.
    pub(crate) fn record(&mut self, value: f64) {
        *self.buckets.entry(index(value)).or_default() += 1;
        self.extremes(value, value);
        self.count += 1;
        self.sum = finite(self.sum + value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        for (index, count) in &other.buckets {
            *self.buckets.entry(*index).or_default() += count;
        }
        self.extremes(other.min, other.max);
        self.count += other.count;
        self.sum = finite(self.sum + other.sum);
    }

    fn extremes(&mut self, min: f64, max: f64) {
        if self.count == 0 {
            (self.min, self.max) = (min, max);
        } else {
            (self.min, self.max) = (self.min.min(min), self.max.max(max));
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    pub(crate) fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    pub(crate) fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The nearest-rank percentile, `percent` within 0 to 100: to three significant digits, never beyond the extremes.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        let rank = super::latency::rank(percent, self.count)?;
        if rank == 1 {
            return self.min();
        }
        if rank == self.count {
            return self.max();
        }
        let mut seen = 0;
        self.buckets.iter().find_map(|(index, count)| {
            seen += count;
            (seen >= rank).then(|| highest(*index).clamp(self.min, self.max))
        })
    }

    /// The buckets from the lowest up: a number of each that stands for it, and how many there are.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().map(|(index, count)| (highest(*index).clamp(self.min, self.max), *count))
    }
}

/// The nearest number that is not infinite: JSON has no infinity.
pub(crate) fn finite(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX)
}

/// The bits of a positive float grow with it; those of a negative one are mirrored.
fn index(value: f64) -> i32 {
    let magnitude = value.abs();
    if magnitude < SMALLEST {
        return 0;
    }
    // Sign, 11 bits of exponent and 10 of the significand fit.
    let leading = (magnitude.min(LARGEST).to_bits() >> SHIFT) as i32;
    if value < 0.0 { -leading } else { leading }
}

/// The highest number of a bucket.
fn highest(index: i32) -> f64 {
    let leading = u64::from(index.unsigned_abs());
    match index {
        0 => 0.0,
        1.. => f64::from_bits(((leading + 1) << SHIFT) - 1),
        _ => -f64::from_bits(leading << SHIFT),
    }
}

/// JSON has no numbers as keys.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        map: &BTreeMap<i32, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<i32, u64>, D::Error> {
        Ok(Vec::<(i32, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_recorded_has_no_figures() {
        let empty = Distribution::default();
        assert_eq!(
            (empty.min(), empty.max(), empty.mean(), empty.percentile(50.0)),
            (None, None, None, None)
        );
    }

    #[test]
    fn numbers_of_any_size_need_a_bounded_number_of_buckets() {
        let mut distribution = Distribution::default();
        for exponent in -300..=300 {
            for sign in [-1.0, 1.0] {
                distribution.record(sign * 10_f64.powi(exponent));
            }
        }
        assert!(distribution.buckets.len() < 100, "{}", distribution.buckets.len());
        let largest = 10_f64.powi(300);
        assert_eq!((distribution.min(), distribution.max()), (Some(-largest), Some(largest)));
        assert_eq!(distribution.percentile(100.0), Some(largest));
    }

    proptest! {
        #[test]
        fn percentiles_are_nearest_rank_to_a_thousandth_whatever_the_sign(
            mut values in proptest::collection::vec(
                prop_oneof![-1e9..1e9, -1.0..1.0, Just(0.0), (-20_i32..20).prop_map(f64::from)], 1..200),
            percent in 0.0_f64..=100.0,
        ) {
            let mut distribution = Distribution::default();
            values.iter().for_each(|value| distribution.record(*value));
            values.sort_by(f64::total_cmp);
            let rank = (percent / 100.0 * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank.min(values.len()) - 1];
            let got = distribution.percentile(percent).unwrap();
            prop_assert!((got - exact).abs() <= exact.abs() / 1000.0 + SMALLEST, "{} for {}", got, exact);
            prop_assert!(got >= values[0] && got <= values[values.len() - 1]);
            prop_assert_eq!(distribution.min(), Some(values[0]));
            prop_assert_eq!(distribution.max(), Some(values[values.len() - 1]));
        }

        #[test]
        fn merging_and_the_wire_lose_nothing(
            a in proptest::collection::vec(-1000_i32..1000, 0..50), b in proptest::collection::vec(-1000_i32..1000, 0..50)
        ) {
            // Whole numbers, whose sums are exact in any order.
            let of = |values: &[i32]| {
                let mut distribution = Distribution::default();
                values.iter().for_each(|value| distribution.record(f64::from(*value)));
                distribution
            };
            let mut merged = Distribution::default();
            for part in [of(&a), of(&b)] {
                merged.merge(&serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap());
            }
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}
