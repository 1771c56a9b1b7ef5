//! A distribution of durations: an HDR histogram in microseconds, its exact extremes beside it, and the durations
//! that were cut off (of which only a lower bound is known) kept apart, and the number of those that never began.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Three significant digits: a bucket's width is at most 0.1% of its value, or 1 µs where that is larger.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Two, for what there are many of and nobody compares to the thousandth.
const COARSE_DIGITS: u8 = 2;

/// A quantile of a [`Latency`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantile {
    pub(crate) nanos: u64,
    /// The true value may be more than `nanos`: the quantile's rank falls on a duration that was cut off, or one that was
    /// cut off before would have been longer than the one that the rank falls on.
    pub(crate) at_least: bool,
}

/// A distribution of durations. Its size does not grow with the number of samples.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    complete: Histogram<u64>,
    censored: Option<Histogram<u64>>,
    /// What never began: longer than anything.
    never: u64,
    min_ns: u64,
    max_ns: u64,
    complete_max_ns: u64,
    censored_min_ns: u64,
    sum_ns: u128,
}

impl Default for Latency {
    fn default() -> Self {
        Self::with(of_digits(SIGNIFICANT_DIGITS))
    }
}

/// `digits` is one of the two above.
fn of_digits(digits: u8) -> Histogram<u64> {
    Histogram::new(digits).expect("2 and 3 significant digits are within the histogram's range")
}

/// To the nearest microsecond. The histogram resizes itself; nothing lasts longer than a u64 of nanoseconds, 584 years.
fn put(histogram: &mut Histogram<u64>, nanos: u64) {
    histogram.record(nanos.saturating_add(500) / 1000).expect("an auto-resizing histogram takes any value");
}

impl Latency {
    fn with(complete: Histogram<u64>) -> Self {
        Self {
            complete,
            censored: None,
            never: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            complete_max_ns: 0,
            censored_min_ns: u64::MAX,
            sum_ns: 0,
        }
    }

    /// One of two significant digits, an eighth in size: within 1%, or 1 µs where that is larger.
    pub(crate) fn coarse() -> Self {
        Self::with(of_digits(COARSE_DIGITS))
    }

    /// Records a duration that was seen to its end.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        put(&mut self.complete, nanos);
        self.min_ns = self.min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
        self.complete_max_ns = self.complete_max_ns.max(nanos);
        self.sum_ns += u128::from(nanos);
    }

    /// Records `count` durations of nothing.
    pub(crate) fn record_zeros(&mut self, count: u64) {
        if count > 0 {
            self.complete.record_n(0, count).expect("an auto-resizing histogram takes any value");
            self.min_ns = 0;
        }
    }

    /// Records a duration that was cut off after `elapsed`: it would have been this long or longer.
    pub(crate) fn record_censored(&mut self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let digits = self.complete.sigfig();
        put(self.censored.get_or_insert_with(|| of_digits(digits)), nanos);
        self.censored_min_ns = self.censored_min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
    }

    /// Records what never began, and so never ended: it ranks above every duration.
    pub(crate) fn record_never(&mut self, count: u64) {
        self.never += count;
    }

    /// Takes another's durations in; an empty one takes its resolution, too.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.is_empty() && self.complete.sigfig() != other.complete.sigfig() {
            self.complete = of_digits(other.complete.sigfig());
        }
        self.complete.add(&other.complete).expect("an auto-resizing histogram takes any other");
        if let Some(censored) = &other.censored {
            let own = self.censored.get_or_insert_with(|| of_digits(censored.sigfig()));
            own.add(censored).expect("an auto-resizing histogram takes any other");
        }
        self.never += other.never;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.complete_max_ns = self.complete_max_ns.max(other.complete_max_ns);
        self.censored_min_ns = self.censored_min_ns.min(other.censored_min_ns);
        self.sum_ns += other.sum_ns;
    }

    /// All durations, those that were cut off or never began included.
    pub(crate) fn count(&self) -> u64 {
        self.complete.len() + self.censored_count() + self.never
    }

    pub(crate) fn complete_count(&self) -> u64 {
        self.complete.len()
    }

    pub(crate) fn censored_count(&self) -> u64 {
        self.censored.as_ref().map_or(0, Histogram::len)
    }

    /// How many never began.
    pub(crate) fn never_count(&self) -> u64 {
        self.never
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Whether there is one of which only a lower bound is known.
    fn has_open_end(&self) -> bool {
        self.censored_count() + self.never > 0
    }

    /// The shortest duration that was seen to its end.
    pub(crate) fn min_nanos(&self) -> Option<u64> {
        (!self.complete.is_empty()).then_some(self.min_ns)
    }

    /// The longest duration, exact, one that was cut off included.
    pub(crate) fn max_nanos(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The longest duration that was seen to its end, exact; 0 without any.
    pub(crate) fn complete_max_nanos(&self) -> u64 {
        self.complete_max_ns
    }

    /// The mean of the durations that were seen to their end, exact.
    pub(crate) fn mean_nanos(&self) -> Option<f64> {
        (!self.complete.is_empty()).then(|| self.sum_ns as f64 / self.complete.len() as f64)
    }

    /// The sum of the durations that were seen to their end.
    pub(crate) fn sum_nanos(&self) -> u128 {
        self.sum_ns
    }

    /// The shortest duration that was cut off: quantiles above it may be lower bounds.
    pub(crate) fn censored_above_nanos(&self) -> Option<u64> {
        (self.censored_count() > 0).then_some(self.censored_min_ns)
    }

    /// The nearest-rank percentile: the smallest value such that at least `percent`% of the durations are not
    /// above it. `percent` is within 0 to 100. Durations that were cut off take part with what was seen of them, and
    /// what never began stands last, at least as long as the longest.
    pub(crate) fn percentile(&self, percent: f64) -> Option<Quantile> {
        let rank = rank(percent, self.count())?;
        let mut complete =
            self.complete.iter_recorded().map(|it| (it.value_iterated_to(), it.count_since_last_iteration()));
        let mut censored = self
            .censored
            .iter()
            .flat_map(Histogram::iter_recorded)
            .map(|it| (it.value_iterated_to(), it.count_since_last_iteration()));
        let (mut next_complete, mut next_censored) = (complete.next(), censored.next());
        let mut seen = 0;
        loop {
            // Within a bucket, what ended stands before what was cut off.
            let (value, count, is_cut_off) = match (next_complete, next_censored) {
                (Some((value, count)), other) if other.is_none_or(|(limit, _)| value <= limit) => {
                    next_complete = complete.next();
                    (value, count, false)
                }
                (_, Some((value, count))) => {
                    next_censored = censored.next();
                    (value, count, true)
                }
                _ => return Some(Quantile { nanos: self.max_ns, at_least: true }),
            };
            seen += count;
            if seen >= rank {
                let nanos = self.clamp(value);
                // Where nothing was cut off there is one value that it can be.
                let may_be_more = self.has_open_end()
                    && (is_cut_off || self.percentile_upper_bound(percent).is_none_or(|most| most > nanos));
                return Some(Quantile { nanos, at_least: may_be_more });
            }
        }
    }

    /// The highest that the percentile can be, if every duration that was cut off had gone on for ever; `None`
    /// where that is without bound (or nothing was recorded).
    pub(crate) fn percentile_upper_bound(&self, percent: f64) -> Option<u64> {
        let rank = rank(percent, self.count())?;
        let mut seen = 0;
        self.complete.iter_recorded().find_map(|it| {
            seen += it.count_since_last_iteration();
            (seen >= rank).then(|| self.clamp(it.value_iterated_to()))
        })
    }

    /// The least and the most that the percentile can be, in nanoseconds; the most is infinite where a duration that was
    /// cut off could be it. Likewise the other ranges.
    pub(crate) fn percentile_range(&self, percent: f64) -> Option<(f64, f64)> {
        let highest = self.percentile_upper_bound(percent).map_or(f64::INFINITY, |nanos| nanos as f64);
        self.percentile(percent).map(|quantile| (quantile.nanos as f64, highest))
    }

    pub(crate) fn min_range(&self) -> Option<(f64, f64)> {
        let lowest = self.min_nanos().into_iter().chain(self.censored_above_nanos()).min();
        let lowest = lowest.or((self.never > 0).then_some(0))?;
        Some((lowest as f64, self.min_nanos().map_or(f64::INFINITY, |nanos| nanos as f64)))
    }

    pub(crate) fn mean_range(&self) -> Option<(f64, f64)> {
        if !self.has_open_end() {
            return self.mean_nanos().map(|mean| (mean, mean));
        }
        // What was cut off took at least as long as was seen of it.
        let at_least = |censored: &Histogram<u64>| -> u128 {
            let micros = censored.iter_recorded().map(|it| {
                let shortest = censored.lowest_equivalent(it.value_iterated_to());
                u128::from(shortest) * u128::from(it.count_since_last_iteration())
            });
            micros.sum()
        };
        let micros = self.censored.as_ref().map_or(0, at_least);
        Some(((self.sum_ns + micros * 1000) as f64 / self.count() as f64, f64::INFINITY))
    }

    /// A bucket's upper edge in nanoseconds, never beyond the exact extremes.
    fn clamp(&self, micros: u64) -> u64 {
        micros.saturating_mul(1000).clamp(self.min_ns.min(self.censored_min_ns), self.max_ns)
    }

    /// The buckets that hold complete durations: highest equivalent value in microseconds, and count.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.complete.iter_recorded().map(|it| (it.value_iterated_to(), it.count_since_last_iteration()))
    }

    /// The complete durations, for an HdrHistogram interval log.
    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.complete
    }
}

/// Nearest rank, from 1. The small allowance keeps 7% of 100 at 7 although 0.07 has no exact binary form.
pub(super) fn rank(percent: f64, count: u64) -> Option<u64> {
    let rank = (percent * count as f64 / 100.0 - 1e-9).ceil();
    (count > 0).then(|| (rank.max(1.0) as u64).min(count))
}

#[derive(Serialize, Deserialize)]
struct Wire {
    hdr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    censored: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    never: u64,
    min_ns: u64,
    max_ns: u64,
    complete_max_ns: u64,
    censored_min_ns: u64,
    sum_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn encode(histogram: &Histogram<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(|error| error.to_string())?;
    Ok(STANDARD.encode(bytes))
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let read: Histogram<u64> =
        HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| format!("{error:?}"))?;
    // Of the two precisions that there are, and resizing itself, whatever was sent.
    let mut own = of_digits(if read.sigfig() == COARSE_DIGITS { COARSE_DIGITS } else { SIGNIFICANT_DIGITS });
    own.add(&read).map_err(|error| error.to_string())?;
    Ok(own)
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = Wire {
            hdr: encode(&self.complete).map_err(serde::ser::Error::custom)?,
            censored: self.censored.as_ref().map(encode).transpose().map_err(serde::ser::Error::custom)?,
            never: self.never,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            complete_max_ns: self.complete_max_ns,
            censored_min_ns: self.censored_min_ns,
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        Ok(Self {
            complete: decode(&wire.hdr).map_err(serde::de::Error::custom)?,
            censored: wire.censored.as_deref().map(decode).transpose().map_err(serde::de::Error::custom)?,
            never: wire.never,
            min_ns: wire.min_ns,
            max_ns: wire.max_ns,
            complete_max_ns: wire.complete_max_ns,
            censored_min_ns: wire.censored_min_ns,
            sum_ns: u128::from(wire.sum_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(millis: &[u64], censored: &[u64]) -> Latency {
        let mut latency = Latency::default();
        millis.iter().for_each(|ms| latency.record(Duration::from_millis(*ms)));
        censored.iter().for_each(|ms| latency.record_censored(Duration::from_millis(*ms)));
        latency
    }

    #[test]
    fn percentiles_are_nearest_rank_and_extremes_are_exact() {
        let latency = of(&(1..=100).collect::<Vec<_>>(), &[]);
        let at = |percent| latency.percentile(percent).unwrap().nanos as f64 / 1e6;
        for (percent, want) in
            [(0.0, 1.0), (7.0, 7.0), (50.0, 50.0), (95.0, 95.0), (99.0, 99.0), (100.0, 100.0)]
        {
            assert!((at(percent) - want).abs() <= want * 0.001, "p{percent} = {}", at(percent));
        }
        assert_eq!((latency.min_nanos(), latency.max_nanos()), (Some(1_000_000), Some(100_000_000)));
        assert_eq!(latency.mean_nanos(), Some(50_500_000.0));
    }

    #[test]
    fn the_maximum_is_not_a_buckets_edge() {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(1_633_333));
        assert_eq!(latency.max_nanos(), Some(1_633_333_000));
        assert_eq!(latency.percentile(99.0).unwrap().nanos, 1_633_333_000);
    }

    #[test]
    fn a_quantile_whose_rank_falls_on_a_cut_off_duration_is_a_lower_bound() {
        let latency = of(&[1, 2, 3, 4, 5, 6, 7, 8], &[20, 30]);
        let p80 = latency.percentile(80.0).unwrap();
        assert!(!p80.at_least && p80.nanos.abs_diff(8_000_000) <= 8_000);
        let p90 = latency.percentile(90.0).unwrap();
        assert!(p90.at_least && p90.nanos.abs_diff(20_000_000) <= 20_000, "{p90:?}");
        assert_eq!(latency.percentile_upper_bound(90.0), None);
        assert!(latency.percentile_upper_bound(80.0).is_some());
        assert_eq!(latency.censored_above_nanos(), Some(20_000_000));
        assert_eq!(latency.max_nanos(), Some(30_000_000));
    }

    #[test]
    fn a_quantile_is_a_lower_bound_where_one_that_was_cut_off_before_it_could_be_beyond_it() {
        let latency = of(&[5, 6, 7, 8, 9], &[1]);
        for (percent, millis, highest) in [(50.0, 6, Some(7)), (80.0, 8, Some(9)), (100.0, 9, None)] {
            let quantile = latency.percentile(percent).unwrap();
            assert!(quantile.at_least && quantile.nanos.abs_diff(millis * 1_000_000) <= millis * 1000);
            let bound = latency.percentile_upper_bound(percent).map(|nanos| (nanos + 500_000) / 1_000_000);
            assert_eq!(bound, highest, "p{percent}");
        }
        let alike = of(&[5, 5, 5, 9], &[1]);
        assert!(!alike.percentile(50.0).unwrap().at_least, "it is the same one way or the other");
    }

    #[test]
    fn what_never_began_ranks_above_all_and_bounds_every_figure_from_below_only() {
        let mut latency = of(&[1, 2, 3, 4, 5, 6, 7], &[9]);
        latency.record_never(2);
        assert_eq!((latency.count(), latency.never_count(), latency.censored_count()), (10, 2, 1));
        let p70 = latency.percentile(70.0).unwrap();
        assert!(!p70.at_least && p70.nanos.abs_diff(7_000_000) <= 7_000);
        for percent in [80.0, 90.0, 100.0] {
            let quantile = latency.percentile(percent).unwrap();
            assert!(quantile.at_least && quantile.nanos.abs_diff(9_000_000) <= 9_000, "{quantile:?}");
            assert!(latency.percentile_range(percent).unwrap().1.is_infinite());
        }
        let (least, most) = latency.mean_range().unwrap();
        assert!((least - 3_700_000.0).abs() <= 3_700.0 && most.is_infinite(), "{least}");
        let mut nothing_else = Latency::default();
        nothing_else.record_never(1);
        assert_eq!(nothing_else.percentile(50.0), Some(Quantile { nanos: 0, at_least: true }));
        assert_eq!(nothing_else.min_range(), Some((0.0, f64::INFINITY)));
        assert_eq!(nothing_else.mean_range(), Some((0.0, f64::INFINITY)));
    }

    #[test]
    fn long_durations_are_told_as_exactly_as_short_ones() {
        for micros in [512_345, 749_999, 1_234_567, 1_499_999, 12_345_678, 3_599_999_999_u64] {
            let mut latency = Latency::default();
            // The longest is beyond, so that no answer is exact by being the maximum.
            for micros in [micros, 2 * micros] {
                latency.record(Duration::from_micros(micros));
            }
            let (got, exact) = (latency.percentile(50.0).unwrap().nanos, micros * 1000);
            assert!(got.abs_diff(exact) <= exact / 1000, "{got} for {exact}");
        }
    }

    #[test]
    fn ten_million_samples_take_no_more_room_than_the_shortest_and_the_longest() {
        let (shortest, longest) = (Duration::from_micros(1), Duration::from_secs(3600));
        let mut latency = Latency::default();
        for record in [Latency::record, Latency::record_censored] {
            record(&mut latency, shortest);
            record(&mut latency, longest);
        }
        let room = |latency: &Latency| {
            (latency.complete.distinct_values(), latency.censored.as_ref().map(Histogram::distinct_values))
        };
        let before = room(&latency);
        let mut random = fastrand::Rng::with_seed(1);
        for n in 0..10_000_000_u64 {
            let duration = Duration::from_nanos(random.u64(1_000..=3_600_000_000_000));
            if n % 10 == 0 { latency.record_censored(duration) } else { latency.record(duration) }
        }
        assert_eq!((latency.count(), room(&latency)), (10_000_004, before));
    }

    #[test]
    fn nothing_recorded_has_no_figures() {
        let latency = Latency::default();
        assert!(
            latency.percentile(50.0).is_none()
                && latency.max_nanos().is_none()
                && latency.mean_nanos().is_none()
        );
    }

    proptest! {
        #[test]
        fn no_quantile_is_beyond_the_maximum_and_all_are_within_a_thousandth(
            mut micros in proptest::collection::vec(1_u64..200_000_000, 1..300), percent in 0.0_f64..=100.0
        ) {
            let mut latency = Latency::default();
            micros.iter().for_each(|us| latency.record(Duration::from_micros(*us)));
            micros.sort_unstable();
            let exact = micros[rank(percent, micros.len() as u64).unwrap() as usize - 1] * 1000;
            let got = latency.percentile(percent).unwrap().nanos;
            prop_assert!(got <= latency.max_nanos().unwrap());
            prop_assert!(got.abs_diff(exact) <= (exact / 1000).max(1000), "{} for {}", got, exact);
        }

        #[test]
        fn merging_and_the_wire_lose_nothing(
            a in proptest::collection::vec(0_u64..4_000_000_000_000, 0..50),
            b in proptest::collection::vec(0_u64..4_000_000_000_000, 0..50),
        ) {
            let mut whole = Latency::default();
            let mut parts = [Latency::default(), Latency::default()];
            for (part, nanos) in parts.iter_mut().zip([&a, &b]) {
                for n in nanos {
                    let duration = Duration::from_nanos(*n);
                    if n % 11 == 0 { whole.record_never(1); part.record_never(1) }
                    else if n % 7 == 0 { whole.record_censored(duration); part.record_censored(duration) }
                    else { whole.record(duration); part.record(duration) }
                }
            }
            let mut merged = Latency::default();
            for part in &parts {
                let wire = serde_json::to_string(part).unwrap();
                merged.merge(&serde_json::from_str(&wire).unwrap());
            }
            let facts = |latency: &Latency| {
                let censored: Vec<_> = latency.censored.iter().flat_map(Histogram::iter_recorded).collect();
                let all: Vec<_> = latency.buckets().collect();
                (all, censored, latency.never, latency.min_ns, latency.max_ns, latency.censored_min_ns, latency.sum_ns)
            };
            prop_assert_eq!(facts(&merged), facts(&whole));
            prop_assert_eq!(merged.count(), (a.len() + b.len()) as u64);
        }
    }
}
