//! The benchmark's figures: one run's CPU per request, and median, spread and ratios over all runs. Pure.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// The contestants that the ratios are to.
const YARDSTICKS: &[&str] = &["wrk", "oha"];

/// One run of one contestant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) requests: u64,
    /// CPU seconds of the process that makes the requests.
    pub(super) load: f64,
    /// CPU seconds of the tool around it; zero where there is none.
    pub(super) tool: f64,
}

impl Sample {
    fn micros(&self) -> f64 {
        (self.load + self.tool) * 1e6 / self.requests as f64
    }

    fn tool_micros(&self) -> f64 {
        self.tool * 1e6 / self.requests as f64
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.2} µs a request ({} requests)", self.micros(), self.requests)
    }
}

/// All runs of one contestant, in µs of CPU a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Result {
    name: String,
    runs: usize,
    median_us: f64,
    min_us: f64,
    max_us: f64,
    /// The part of the median that the tool's own process has.
    tool_median_us: f64,
    requests_median: f64,
}

impl Result {
    pub(super) fn new(name: &str, samples: &[Sample]) -> Self {
        let micros = sorted(samples.iter().map(Sample::micros));
        Self {
            name: name.to_owned(),
            runs: samples.len(),
            median_us: median(&micros),
            min_us: micros.first().copied().unwrap_or(f64::NAN),
            max_us: micros.last().copied().unwrap_or(f64::NAN),
            tool_median_us: median(&sorted(samples.iter().map(Sample::tool_micros))),
            requests_median: median(&sorted(samples.iter().map(|sample| sample.requests as f64))),
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Of sorted values; the mean of the two in the middle where their number is even.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

pub(super) fn table(results: &[Result]) -> String {
    let width = results.iter().map(|result| result.name.len()).max().unwrap_or_default();
    let mut text =
        format!("{:<width$}  {:>8}  {:>17}  {:>8}  {:>10}", "", "median", "spread", "of tool", "requests");
    for yardstick in YARDSTICKS {
        text += &yardstick_cell(&format!("×{yardstick}"));
    }
    text.push('\n');
    for result in results {
        let spread = format!("{:.2} to {:.2}", result.min_us, result.max_us);
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "{:<width$}  {:>8.2}  {spread:>17}  {:>8.2}  {:>10.0}",
            result.name, result.median_us, result.tool_median_us, result.requests_median
        );
        for yardstick in YARDSTICKS {
            let other = results.iter().find(|other| other.name == *yardstick);
            let ratio = other.map_or(f64::NAN, |other| result.median_us / other.median_us);
            text += &yardstick_cell(&format!("{ratio:.2}"));
        }
        text.push('\n');
    }
    text
}

fn yardstick_cell(text: &str) -> String {
    format!("  {text:>6}")
}

#[cfg(test)]
mod tests {
    use super::{Result, Sample, median, table};

    fn samples(micros: &[f64], tool: f64) -> Vec<Sample> {
        micros.iter().map(|total| Sample { requests: 1_000_000, load: total - tool, tool }).collect()
    }

    #[test]
    fn the_median_is_the_middle_of_odd_and_even_numbers_of_runs() {
        assert_eq!(median(&[1.0, 2.0, 9.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]).to_bits(), 3.0_f64.to_bits());
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_table_has_median_spread_and_ratios() {
        let results = [
            Result::new("loadtest, default", &samples(&[14.0, 12.0, 13.0], 1.0)),
            Result::new("wrk", &samples(&[4.0], 0.0)),
            Result::new("oha", &samples(&[10.0, 10.0], 0.0)),
        ];
        let expected = "
                     median             spread   of tool    requests    ×wrk    ×oha
loadtest, default     13.00     12.00 to 14.00      1.00     1000000    3.25    1.30
wrk                    4.00       4.00 to 4.00      0.00     1000000    1.00    0.40
oha                   10.00     10.00 to 10.00      0.00     1000000    2.50    1.00
";
        assert_eq!(format!("\n{}", table(&results)), expected);
    }
}
