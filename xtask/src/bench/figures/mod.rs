//! The benchmark's figures, and the tables they are shown in. Pure.

pub(super) mod cpu;
pub(super) mod flat;
pub(super) mod lateness;
pub(super) mod memory;

use std::fmt;

use serde::Serialize;

/// Median, least and most of all runs. Shown as `1.12 (1.05 to 1.20)`, or as one number where there was one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Of no values it has no numbers: all are NaN.
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values);
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self { median: median(&sorted), least: end(sorted.first()), most: end(sorted.last()) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(2);
        if self.median.is_nan() {
            return f.write_str("–");
        }
        let rounded = |value: f64| {
            let text = format!("{value:.places$}");
            // Next to nothing below zero is zero.
            let is_zero = text.chars().all(|digit| matches!(digit, '-' | '0' | '.'));
            if is_zero { text.trim_start_matches('-').to_owned() } else { text }
        };
        f.write_str(&rounded(self.median))?;
        if self.least.to_bits() == self.most.to_bits() {
            return Ok(());
        }
        write!(f, " ({} to {})", rounded(self.least), rounded(self.most))
    }
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.into_iter().collect();
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

/// Of sorted values, by nearest rank: the least value that at least `share` of them do not exceed.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// A table in Markdown; its first column is text and the others are numbers.
fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let cell = |text: &String| if text.is_empty() { " |".to_owned() } else { format!(" {text} |") };
    let line = |cells: &[String]| format!("|{}\n", cells.iter().map(cell).collect::<String>());
    let rule = "---|".repeat(head.len());
    line(head) + &format!("|{rule}\n") + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// The name of a contestant in a table.
fn shown(name: &str) -> String {
    match name {
        "loadtest" => "`loadtest` (the default: 500 traced iterations a second)".to_owned(),
        name => format!("`{name}`"),
    }
}

/// A target and whether it was met, as two cells.
fn judged(target: Option<(f64, String)>, measured: f64) -> [String; 2] {
    match target {
        Some((bound, shown)) => [shown, if measured <= bound { "yes" } else { "no" }.to_owned()],
        None => ["–".to_owned(), "–".to_owned()],
    }
}

/// `1,000` for 1000.
pub(super) fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Spread, grouped, judged, median, quantile};

    #[test]
    fn the_median_is_the_middle_of_odd_and_even_numbers_of_runs() {
        assert_eq!(median(&[1.0, 2.0, 9.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]).to_bits(), 3.0_f64.to_bits());
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_quantile_is_the_value_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0), (0.0, 1.0)] {
            assert_eq!(quantile(&hundred, share).to_bits(), f64::to_bits(expected), "{share}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_spread_shows_one_number_where_there_is_no_more_to_tell() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).to_string(), "2.00 (1.00 to 3.00)");
        assert_eq!(format!("{:.0}", Spread::of([3.0, 1.0])), "2 (1 to 3)");
        assert_eq!(Spread::of([1.5]).to_string(), "1.50");
        assert_eq!(Spread::of([-0.001, -0.5]).to_string(), "-0.25 (-0.50 to 0.00)");
        assert_eq!(Spread::of([]).to_string(), "–");
    }

    #[test]
    fn a_target_is_met_up_to_its_bound_and_never_by_what_was_not_measured() {
        let target = || Some((1.1, "≤ 1.1".to_owned()));
        assert_eq!(judged(target(), 1.1), ["≤ 1.1", "yes"]);
        assert_eq!(judged(target(), 1.11), ["≤ 1.1", "no"]);
        assert_eq!(judged(target(), f64::NAN), ["≤ 1.1", "no"]);
        assert_eq!(judged(None, 9.0), ["–", "–"]);
    }

    #[test]
    fn large_numbers_are_grouped() {
        for (number, expected) in [(50, "50"), (999, "999"), (5000, "5,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
