//! How far requests are from where a constant rate would have them, as the server sees it.

use serde::Serialize;

use super::{Spread, median, quantile, shown, sorted, table};

const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MILLI: f64 = 1e6;

/// From the first arrival on, users connect. What comes then is counted, but has no place in how well a rate is kept.
const SETTLING_NANOS: u64 = 1_000_000_000;

/// One run of one contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) struct Sample {
    /// Per cent of what the rate makes between the first arrival and the last that did not arrive; below zero where more did.
    missing: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The same two as the contestant says itself: how late requests started.
    lag_ms: Option<(f64, f64)>,
}

impl Sample {
    /// Of arrivals in nanoseconds, in their order, that were asked for at `rate` a second.
    ///
    /// The n-th is compared with start + n ÷ rate. The start is the one that fits best, which makes the sum of the distances
    /// least: the median of what the arrivals themselves say of it. A distance is taken either way, early or late. Nothing
    /// of fewer than two arrivals, or where all are of the time in which users connect.
    pub(in crate::bench) fn new(arrivals: &[u64], rate: f64, lag_ms: Option<(f64, f64)>) -> Option<Self> {
        let (first, last) = (arrivals.first()?, arrivals.last()?);
        let span = last.checked_sub(*first).filter(|span| *span > 0)?;
        let due = span as f64 / NANOS_PER_SECOND * rate;
        let settled = arrivals.partition_point(|arrival| arrival - first < SETTLING_NANOS);
        let starts: Vec<f64> = arrivals[settled..]
            .iter()
            .enumerate()
            .map(|(n, &arrival)| arrival as f64 - n as f64 * NANOS_PER_SECOND / rate)
            .collect();
        if starts.is_empty() {
            return None;
        }
        let start = median(&sorted(starts.iter().copied()));
        let distances = sorted(starts.iter().map(|own| (own - start).abs() / NANOS_PER_MILLI));
        Some(Self {
            missing: 100.0 * (1.0 - (arrivals.len() - 1) as f64 / due),
            p50_ms: quantile(&distances, 0.5),
            p99_ms: quantile(&distances, 0.99),
            lag_ms,
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
    missing: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
    lag_p50_ms: Spread,
    lag_p99_ms: Spread,
}

/// Of the samples of each contestant; those without any have no open model.
pub(in crate::bench) fn rows(samples: &[(&'static str, Vec<Sample>)]) -> Vec<Row> {
    let figures = |samples: &Vec<Sample>| Figures {
        missing: Spread::of(samples.iter().map(|sample| sample.missing)),
        p50_ms: Spread::of(samples.iter().map(|sample| sample.p50_ms)),
        p99_ms: Spread::of(samples.iter().map(|sample| sample.p99_ms)),
        lag_p50_ms: Spread::of(samples.iter().filter_map(|sample| Some(sample.lag_ms?.0))),
        lag_p99_ms: Spread::of(samples.iter().filter_map(|sample| Some(sample.lag_ms?.1))),
    };
    let row = |(name, samples): &(&'static str, Vec<Sample>)| Row {
        name,
        figures: (!samples.is_empty()).then(|| figures(samples)),
    };
    samples.iter().map(row).collect()
}

pub(in crate::bench) fn markdown(rows: &[Row]) -> String {
    let head =
        ["", "% not made", "off its place, p50 ms", "p99 ms", "late by its own word, p50 ms", "p99 ms"];
    let cells = |row: &Row| {
        let Some(figures) = &row.figures else {
            let mut cells = vec![shown(row.name), "has no open model".to_owned()];
            cells.resize(head.len(), "–".to_owned());
            return cells;
        };
        let Figures { missing, p50_ms, p99_ms, lag_p50_ms, lag_p99_ms } = figures;
        let mut cells = vec![shown(row.name), format!("{missing:.1}")];
        cells.extend([p50_ms, p99_ms, lag_p50_ms, lag_p99_ms].map(Spread::to_string));
        cells
    };
    table(&head.map(str::to_owned), &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Sample, markdown, rows};

    const MILLI: u64 = 1_000_000;

    /// Asked for at 1000 a second, after a second at that rate exactly.
    fn sample(arrivals: &[u64]) -> Sample {
        let begun = (0..1000).map(|n| n * MILLI);
        let arrivals: Vec<u64> = begun.chain(arrivals.iter().map(|at| 1000 * MILLI + at)).collect();
        Sample::new(&arrivals, 1000.0, None).unwrap()
    }

    fn micros(sample: Sample) -> (u64, u64) {
        ((sample.p50_ms * 1e3).round() as u64, (sample.p99_ms * 1e3).round() as u64)
    }

    #[test]
    fn a_constant_rate_is_nowhere_off_whenever_it_began() {
        for began in [0, 12_345 * MILLI] {
            let arrivals: Vec<u64> = (0..2000).map(|n| began + n * MILLI).collect();
            let expected = Sample { missing: 0.0, p50_ms: 0.0, p99_ms: 0.0, lag_ms: None };
            assert_eq!(Sample::new(&arrivals, 1000.0, None), Some(expected));
        }
    }

    #[test]
    fn the_first_second_counts_for_what_was_missed_alone() {
        // One at the start and then nothing until a second later.
        let arrivals: Vec<u64> = [0].into_iter().chain((1000..=2000).map(|n| n * MILLI)).collect();
        let sample = Sample::new(&arrivals, 1000.0, None).unwrap();
        assert_eq!(micros(sample), (0, 0));
        assert!((sample.missing - 100.0 * 999.0 / 2000.0).abs() < 1e-9, "{sample:?}");
    }

    #[test]
    fn bursts_are_off_by_up_to_half_of_their_distance() {
        // Ten at once every 10 ms: at −4.5, −3.5 … 4.5 ms of their places. By nearest rank p50 is 2.5, and p99 4.5.
        let arrivals: Vec<u64> = (0..1000).map(|n| n / 10 * 10 * MILLI).collect();
        assert_eq!(micros(sample(&arrivals)), (2500, 4500));
    }

    #[test]
    fn a_stall_that_is_caught_up_with_shows_at_the_tail_alone() {
        // 1000 arrivals; those due in 30 ms of them come together at the end of these.
        let arrivals: Vec<u64> =
            (0..1000).map(|n| if (500..530).contains(&n) { 530 * MILLI } else { n * MILLI }).collect();
        // Late by 1 to 30 ms; of all, 1% is more than 20.
        assert_eq!(micros(sample(&arrivals)), (0, 20_000));
    }

    #[test]
    fn a_rate_that_is_missed_drifts_away_from_its_schedule() {
        // 1000 at 999 a second: the last is a millisecond behind the first, and the middle fits.
        let arrivals: Vec<u64> = (0..1000).map(|n| (f64::from(n) * 1e9 / 999.0) as u64).collect();
        let (p50, p99) = micros(sample(&arrivals));
        assert!((249..=251).contains(&p50) && (494..=496).contains(&p99), "{p50} {p99}");
    }

    #[test]
    fn what_was_not_made_is_counted_and_shifts_what_comes_after() {
        // Every second arrival of the second half is left out: 250 of 1000. The last is 249 ms off, and 1% of 750 are more
        // than 242.
        let due = (0..1000).filter(|n| *n < 500 || n % 2 == 0);
        let sample = sample(&due.map(|n| n * MILLI).collect::<Vec<_>>());
        assert_eq!(micros(sample).1, 242_000);
        // The last is due after 1998 ms.
        assert!((sample.missing - 100.0 * 249.0 / 1998.0).abs() < 1e-9, "{sample:?}");
    }

    #[test]
    fn one_arrival_says_nothing() {
        assert_eq!(Sample::new(&[], 1.0, None), None);
        assert_eq!(Sample::new(&[7], 1.0, None), None);
        assert_eq!(Sample::new(&[7, 8], 1.0, None), None);
    }

    #[test]
    fn a_contestant_without_an_open_model_is_named() {
        let own = Sample { missing: 0.5, p50_ms: 0.5, p99_ms: 1.25, lag_ms: Some((0.125, 1.0)) };
        let samples = [
            ("loadtest --trace off", vec![own]),
            ("oha", vec![Sample { lag_ms: None, ..own }]),
            ("wrk", vec![]),
        ];
        let expected = "\
| | % not made | off its place, p50 ms | p99 ms | late by its own word, p50 ms | p99 ms |
|---|---|---|---|---|---|
| `loadtest --trace off` | 0.5 | 0.50 | 1.25 | 0.12 | 1.00 |
| `oha` | 0.5 | 0.50 | 1.25 | – | – |
| `wrk` | has no open model | – | – | – | – |
";
        assert_eq!(markdown(&rows(&samples)), expected);
    }
}
