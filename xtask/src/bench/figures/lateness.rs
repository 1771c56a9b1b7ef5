//! How far requests are from where a constant rate would have them, as the server sees it.

use serde::Serialize;

use super::{Spread, median, quantile, shown, sorted, table};

const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MILLI: f64 = 1e6;

/// One run of one contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) struct Sample {
    /// Arrivals a second, from the first to the last.
    pub(in crate::bench) rate: f64,
    pub(in crate::bench) p50_ms: f64,
    pub(in crate::bench) p99_ms: f64,
}

impl Sample {
    /// Of arrivals in nanoseconds, in their order, that were asked for at `rate` a second.
    ///
    /// The n-th is compared with start + n ÷ rate. The start is the one that fits best, which makes the sum of the distances
    /// least: the median of what the arrivals themselves say of it. A distance is taken either way, early or late. Nothing
    /// of fewer than two arrivals.
    pub(in crate::bench) fn new(arrivals: &[u64], rate: f64) -> Option<Self> {
        let (first, last) = (arrivals.first()?, arrivals.last()?);
        let span = last.checked_sub(*first).filter(|span| *span > 0)?;
        let starts: Vec<f64> = arrivals
            .iter()
            .enumerate()
            .map(|(n, &arrival)| arrival as f64 - n as f64 * NANOS_PER_SECOND / rate)
            .collect();
        let start = median(&sorted(starts.iter().copied()));
        let distances = sorted(starts.iter().map(|own| (own - start).abs() / NANOS_PER_MILLI));
        Some(Self {
            rate: (arrivals.len() - 1) as f64 * NANOS_PER_SECOND / span as f64,
            p50_ms: quantile(&distances, 0.5),
            p99_ms: quantile(&distances, 0.99),
        })
    }
}

#[derive(Debug, Serialize)]
pub(in crate::bench) struct Row {
    name: &'static str,
    /// Nothing where the contestant has no open model.
    figures: Option<Figures>,
}

#[derive(Debug, Serialize)]
struct Figures {
    rate: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
}

/// Of the samples of each contestant; those without any have no open model.
pub(in crate::bench) fn rows(samples: &[(&'static str, Vec<Sample>)]) -> Vec<Row> {
    let figures = |samples: &Vec<Sample>| Figures {
        rate: Spread::of(samples.iter().map(|sample| sample.rate)),
        p50_ms: Spread::of(samples.iter().map(|sample| sample.p50_ms)),
        p99_ms: Spread::of(samples.iter().map(|sample| sample.p99_ms)),
    };
    let row = |(name, samples): &(&'static str, Vec<Sample>)| Row {
        name,
        figures: (!samples.is_empty()).then(|| figures(samples)),
    };
    samples.iter().map(row).collect()
}

pub(in crate::bench) fn markdown(rows: &[Row]) -> String {
    let head = ["", "requests a second", "off its place, p50 ms", "p99 ms"].map(str::to_owned);
    let cells = |row: &Row| match &row.figures {
        Some(Figures { rate, p50_ms, p99_ms }) => {
            vec![shown(row.name), format!("{rate:.1}"), format!("{p50_ms:.3}"), format!("{p99_ms:.3}")]
        }
        None => vec![shown(row.name), "has no open model".to_owned(), "–".to_owned(), "–".to_owned()],
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Sample, markdown, rows};

    const MILLI: u64 = 1_000_000;

    fn milli(value: f64) -> u64 {
        (value * 1e6).round() as u64
    }

    #[test]
    fn a_constant_rate_is_nowhere_off_whenever_it_began() {
        for began in [0, 12_345 * MILLI] {
            let arrivals: Vec<u64> = (0..1000).map(|n| began + n * MILLI).collect();
            assert_eq!(
                Sample::new(&arrivals, 1000.0),
                Some(Sample { rate: 1000.0, p50_ms: 0.0, p99_ms: 0.0 })
            );
        }
    }

    #[test]
    fn bursts_are_off_by_up_to_half_of_their_distance() {
        // Ten at once every 10 ms: at −4.5, −3.5 … 4.5 ms of their places. By nearest rank p50 is 2.5, and p99 4.5.
        let arrivals: Vec<u64> = (0..1000).map(|n| n / 10 * 10 * MILLI).collect();
        let sample = Sample::new(&arrivals, 1000.0).unwrap();
        assert_eq!((milli(sample.p50_ms), milli(sample.p99_ms)), (milli(2.5), milli(4.5)), "{sample:?}");
    }

    #[test]
    fn a_stall_that_is_caught_up_with_shows_at_the_tail_alone() {
        // 1000 arrivals; those due in 30 ms of them come together at the end of these.
        let arrivals: Vec<u64> =
            (0..1000).map(|n| if (500..530).contains(&n) { 530 * MILLI } else { n * MILLI }).collect();
        let sample = Sample::new(&arrivals, 1000.0).unwrap();
        // Late by 1 to 30 ms; of all, 1% is more than 20.
        assert_eq!((milli(sample.p50_ms), milli(sample.p99_ms)), (0, milli(20.0)), "{sample:?}");
    }

    #[test]
    fn a_rate_that_is_missed_drifts_away_from_its_schedule() {
        // 1001 at 999 a second: the last is a millisecond behind the first, and the middle fits.
        let arrivals: Vec<u64> = (0..=1000).map(|n| (f64::from(n) * 1e9 / 999.0) as u64).collect();
        let sample = Sample::new(&arrivals, 1000.0).unwrap();
        assert!((sample.rate - 999.0).abs() < 0.001, "{sample:?}");
        assert!((sample.p99_ms - 0.495).abs() < 0.002, "{sample:?}");
    }

    #[test]
    fn one_arrival_says_nothing() {
        assert_eq!(Sample::new(&[], 1.0), None);
        assert_eq!(Sample::new(&[7], 1.0), None);
    }

    #[test]
    fn a_contestant_without_an_open_model_is_named() {
        let samples = [("oha", vec![Sample { rate: 999.0, p50_ms: 0.5, p99_ms: 1.25 }]), ("wrk", vec![])];
        let expected = "\
| | requests a second | off its place, p50 ms | p99 ms |
|---|---|---|---|
| `oha` | 999.0 | 0.500 | 1.250 |
| `wrk` | has no open model | – | – |
";
        assert_eq!(markdown(&rows(&samples)), expected);
    }
}
