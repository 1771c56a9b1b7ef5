//! Which requests a statement about a percentile rests on.

use crate::model::latency::Latency;
use crate::model::summary::Band;

/// Requests below which nothing is said in percent.
pub(super) const ENOUGH: usize = 30;

/// Half widths of the band around the 95th percentile, in percentiles: the first that holds enough is taken.
const HALF_WIDTHS: [f64; 8] = [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0];

/// Chooses the band for the tail among requests of these durations, and marks those in it. The cut points come from
/// `all`, the histogram of all expected responses, traced or not. The slower half may hold fewer than [`ENOUGH`].
pub(super) fn tail(durations_ns: &[u64], all: &Latency) -> (Band, Vec<bool>) {
    for half in HALF_WIDTHS {
        let Some((from, to)) = cuts(all, 95.0 - half, 95.0 + half) else { break };
        let inside: Vec<bool> = durations_ns.iter().map(|ns| (from..=to).contains(&to_micros(*ns))).collect();
        if inside.iter().filter(|inside| **inside).count() >= ENOUGH {
            return (Band::P95, inside);
        }
    }
    let median = all.percentile(50.0).map_or(u64::MAX, |median| median.nanos);
    (Band::SlowerHalf, durations_ns.iter().map(|ns| *ns > median).collect())
}

/// Two percentiles in microseconds, with the whole of the histogram's buckets that they fall into: within a bucket
/// the histogram does not know which duration is the longer one.
fn cuts(all: &Latency, low: f64, high: f64) -> Option<(u64, u64)> {
    let (low, high) = (all.percentile(low)?, all.percentile(high)?);
    let buckets = all.histogram();
    Some((buckets.lowest_equivalent(to_micros(low.nanos)), buckets.highest_equivalent(to_micros(high.nanos))))
}

/// As [`Latency`] rounds.
fn to_micros(nanos: u64) -> u64 {
    nanos.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The band and the durations in it, of durations 1 to `count` ms of which every `every`th was traced.
    fn of(count: u64, every: u64) -> (Band, Vec<u64>) {
        let mut all = Latency::default();
        (1..=count).for_each(|ms| all.record(Duration::from_millis(ms)));
        let traced: Vec<u64> = (1..=count).filter(|ms| ms % every == 0).map(|ms| ms * 1_000_000).collect();
        let (band, inside) = tail(&traced, &all);
        let held = traced.iter().zip(inside).filter(|(_, inside)| *inside);
        (band, held.map(|(ns, _)| ns / 1_000_000).collect())
    }

    #[test]
    fn the_band_is_as_narrow_as_thirty_requests_allow() {
        for (count, every, band, from, to, held) in [
            // 0.935 to 0.965 of 2000.
            (2000, 1, Band::P95, 1870, 1930, 61),
            // 0.935 to 0.965 of 1000 hold 31.
            (1000, 1, Band::P95, 935, 965, 31),
            // 0.915 to 0.985 of 400: 29. 0.91 to 0.99: 33.
            (400, 1, Band::P95, 364, 396, 33),
            // 0.9 to 1 of 400: 21 of every second one. The slower half.
            (400, 2, Band::SlowerHalf, 202, 400, 100),
            // Not enough there either.
            (40, 1, Band::SlowerHalf, 21, 40, 20),
        ] {
            let (got, inside) = of(count, every);
            let what = (got, inside.first().copied(), inside.last().copied(), inside.len());
            assert_eq!(what, (band, Some(from), Some(to), held), "1 of {every} of {count}");
        }
    }

    #[test]
    fn equal_durations_are_all_in_the_band_however_the_histogram_rounds() {
        for nanos in [999, 1_234_567, 100_000_400, 59_999_999_999] {
            let mut all = Latency::default();
            (0..40).for_each(|_| all.record(Duration::from_nanos(nanos)));
            assert_eq!(tail(&[nanos; 40], &all), (Band::P95, vec![true; 40]), "{nanos}");
        }
    }

    #[test]
    fn what_was_cut_off_takes_part_in_the_cut_points() {
        // 100 ended, 1 to 100 ms; 100 were cut off at 1 s: the tail is beyond all that ended.
        let mut all = Latency::default();
        (1..=100).for_each(|ms| all.record(Duration::from_millis(ms)));
        (0..100).for_each(|_| all.record_censored(Duration::from_secs(1)));
        let ended: Vec<u64> = (1..=100).map(|ms| ms * 1_000_000).collect();
        let (band, inside) = tail(&ended, &all);
        assert_eq!((band, inside.contains(&true)), (Band::SlowerHalf, false));
        assert_eq!(tail(&ended, &Latency::default()).0, Band::SlowerHalf);
    }
}
