//! The table of steps: plain, fixed-width text, one line a step, figures in the last columns.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

use super::plain::plain;
use super::summary::{LatencyMs, Step, Summary, Totals};
use super::threshold::nearest;

/// The name column is at least this wide, so that tables of different runs stand under each other.
const NAME_WIDTH: usize = 32;

/// A figure of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Count,
    Errors,
    RateLimited,
    Interrupted,
    Avg,
    Min,
    P50,
    P90,
    P95,
    P99,
    Max,
    Unloaded,
}

impl Column {
    /// The six of the standard table: p99 is the last word of each line.
    pub(crate) const STANDARD: [Self; 6] =
        [Self::Count, Self::Errors, Self::RateLimited, Self::P50, Self::P95, Self::P99];

    /// Every column, under the name by which it is chosen.
    const NAMES: [(&'static str, Self); 12] = [
        ("count", Self::Count),
        ("errors", Self::Errors),
        ("429s", Self::RateLimited),
        ("interrupted", Self::Interrupted),
        ("avg", Self::Avg),
        ("min", Self::Min),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p95", Self::P95),
        ("p99", Self::P99),
        ("max", Self::Max),
        ("unloaded", Self::Unloaded),
    ];

    /// Reads a list such as `avg,min,p90,max`.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(|name| name.trim().parse()).collect()
    }

    fn header(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Errors => "errors",
            Self::RateLimited => "429s",
            Self::Interrupted => "interrupted",
            Self::Avg => "avg(ms)",
            Self::Min => "min(ms)",
            Self::P50 => "p50(ms)",
            Self::P90 => "p90(ms)",
            Self::P95 => "p95(ms)",
            Self::P99 => "p99(ms)",
            Self::Max => "max(ms)",
            Self::Unloaded => "unloaded(ms)",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Count => 6,
            Self::Errors => 7,
            _ => self.header().len().max(8),
        }
    }

    /// One word, whatever was measured: `-` where nothing was, `≥` before what is only a lower bound.
    fn figure(self, step: &Step) -> String {
        let latency = &step.latency_ms;
        let bounded = |name: &str, value| {
            let sign = if latency.at_least.iter().any(|bound| bound == name) { "≥" } else { "" };
            format!("{sign}{}", ms(value))
        };
        match self {
            Self::Count => step.count.to_string(),
            Self::Errors => step.errors.to_string(),
            Self::RateLimited => step.rate_limited.to_string(),
            Self::Interrupted => step.interrupted.to_string(),
            Self::Avg => ms(latency.mean),
            Self::Min => ms(latency.min),
            Self::P50 => bounded("p50", latency.p50),
            Self::P90 => bounded("p90", latency.p90),
            Self::P95 => bounded("p95", latency.p95),
            Self::P99 => bounded("p99", latency.p99),
            Self::Max => bounded("max", latency.max),
            Self::Unloaded => ms(step.unloaded_ms.as_ref().map(|unloaded| unloaded.p50)),
        }
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // k6's name for the median.
        let wanted = if name == "med" { "p50" } else { name };
        let known = Self::NAMES.iter().find(|(known, _)| *known == wanted);
        known.map(|(_, column)| *column).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name);
            format!("`{name}` is no column{}", nearest(name, names))
        })
    }
}

/// Milliseconds in plain digits: one decimal, three below one millisecond, where one would hide the figure.
pub(crate) fn ms(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 1.0 && value != 0.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// How rows name their scenario: only as far as the run needs to tell them apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels {
    scenario: bool,
    package: bool,
}

impl Labels {
    pub(crate) fn of(summary: &Summary) -> Self {
        let names: BTreeSet<&str> = summary.scenarios.iter().map(|s| s.name.as_str()).collect();
        Self { scenario: summary.scenarios.len() > 1, package: names.len() < summary.scenarios.len() }
    }

    /// `rest`, behind the scenario's name where there are several, and that behind the package's where several
    /// scenarios have one name.
    pub(crate) fn label(self, package: &str, scenario: &str, rest: &str) -> String {
        match (self.scenario, self.package) {
            (false, _) => plain(rest),
            (true, false) => plain(&format!("{scenario}: {rest}")),
            (true, true) => plain(&format!("{package}::{scenario}: {rest}")),
        }
    }
}

/// The table with its header, a line for each step, scenario by scenario. Every line ends in a line feed.
pub(crate) fn table(summary: &Summary, columns: &[Column]) -> String {
    let labels = Labels::of(summary);
    let rows: Vec<(String, Vec<String>)> = summary
        .steps
        .iter()
        .map(|step| {
            let name = labels.label(&step.package, &step.scenario, &step.step);
            (name, columns.iter().map(|column| column.figure(step)).collect())
        })
        .collect();
    let name_width = rows.iter().map(|(name, _)| width(name)).fold(NAME_WIDTH, usize::max);
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| rows.iter().map(|(_, cells)| width(&cells[at])).fold(column.width(), usize::max))
        .collect();
    let headers = columns.iter().map(|column| column.header().to_owned()).collect();
    let rules = widths.iter().map(|width| "-".repeat(*width)).collect();
    let head = [("step".to_owned(), headers), ("-".repeat(name_width), rules)];
    let mut out = String::new();
    for (name, cells) in head.iter().chain(&rows) {
        let _ = write!(out, "{name:name_width$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(out, " {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

/// `totals: 1800 requests, 0 errors, 0 rate-limited, 15.0 req/s avg`
pub(crate) fn totals(totals: &Totals) -> String {
    let Totals { requests, errors, rate_limited, interrupted, requests_per_s } = totals;
    let interrupted = match interrupted {
        0 => String::new(),
        n => format!("{n} interrupted, "),
    };
    format!(
        "totals: {requests} requests, {errors} errors, {rate_limited} rate-limited, {interrupted}{requests_per_s:.1} req/s avg"
    )
}

/// Whether any figure of the table is only a lower bound.
pub(crate) fn has_lower_bounds(summary: &Summary) -> bool {
    let bounded = |latency: &LatencyMs| !latency.at_least.is_empty();
    summary.steps.iter().any(|step| bounded(&step.latency_ms))
}

/// Characters, not bytes: what `format!` pads by.
fn width(text: &str) -> usize {
    text.chars().count()
}
