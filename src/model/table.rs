//! The table of steps: plain, fixed-width text, one line a step, figures in the last columns.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

use super::nearest::nearest;
use super::plain::plain;
use super::summary::{Step, Summary, Totals};

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
            Self::Avg => bounded("mean", latency.mean),
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
    let head = columns.iter().map(|column| (column.header(), column.width())).collect::<Vec<_>>();
    lines("step", &head, &rows)
}

/// A table whose first column has names and whose others, under headers with their least widths, have figures. Every line
/// ends in a line feed.
pub(crate) fn lines(title: &str, columns: &[(&str, usize)], rows: &[(String, Vec<String>)]) -> String {
    let name_width = rows.iter().map(|(name, _)| width(name)).fold(NAME_WIDTH, usize::max);
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, (_, least))| rows.iter().map(|(_, cells)| width(&cells[at])).fold(*least, usize::max))
        .collect();
    let headers = columns.iter().map(|(header, _)| (*header).to_owned()).collect();
    let rules = widths.iter().map(|width| "-".repeat(*width)).collect();
    let head = [(title.to_owned(), headers), ("-".repeat(name_width), rules)];
    let mut out = String::new();
    for (name, cells) in head.iter().chain(rows) {
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
    let Totals { requests, errors, rate_limited, interrupted, retries, generator_errors, requests_per_s } =
        totals;
    let mut text = format!("totals: {requests} requests, {errors} errors, {rate_limited} rate-limited, ");
    for (count, what) in [
        (interrupted, "interrupted"),
        (retries, "sent again"),
        (generator_errors, "not sent by the generator"),
    ] {
        if *count > 0 {
            let _ = write!(text, "{count} {what}, ");
        }
    }
    let _ = write!(text, "{requests_per_s:.1} req/s avg");
    text
}

/// Whether any figure in these columns of the table is only a lower bound.
pub(crate) fn has_lower_bounds(summary: &Summary, columns: &[Column]) -> bool {
    summary.steps.iter().any(|step| columns.iter().any(|column| column.figure(step).starts_with('≥')))
}

/// Characters, not bytes: what `format!` pads by.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::latency::Latency;
    use super::super::sample;
    use super::super::stats::StepKind;
    use super::super::summary::LatencyMs;
    use super::*;

    #[test]
    fn figures_are_the_last_words_of_each_line_whatever_was_measured() {
        let mut summary = sample::summary();
        let mut odd = summary.steps[0].clone();
        odd.step = format!("GET /{}/\u{1b}[31mρ\n x", "long".repeat(12));
        odd.kind = StepKind::Step;
        odd.latency_ms.at_least = vec!["p95".into(), "p99".into()];
        odd.count = 12_345_678_901;
        let mut empty = summary.steps[0].clone();
        (empty.step, empty.latency_ms) = ("nothing".into(), LatencyMs::default());
        summary.steps.extend([odd, empty]);
        let text = table(&summary, &Column::STANDARD);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + summary.steps.len());
        let widths: Vec<usize> = lines.iter().map(|line| width(line)).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        for (line, step) in lines[2..].iter().zip(&summary.steps) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let figures = &words[words.len() - 6..];
            assert_eq!(figures[0], step.count.to_string());
            assert_eq!(figures[5], Column::P99.figure(step));
        }
        assert!(lines[5].contains(&"long".repeat(12)) && lines[5].contains(" ≥"), "{text}");
        assert!(lines[6].ends_with(" -"), "{text}");
    }

    #[test]
    fn a_mean_with_what_was_cut_off_is_marked_as_a_lower_bound_where_it_is_shown() {
        let mut latency = Latency::default();
        (0..9).for_each(|_| latency.record(std::time::Duration::from_millis(10)));
        latency.record_censored(std::time::Duration::from_millis(20));
        let mut summary = sample::summary();
        summary.steps.truncate(1);
        summary.steps[0].latency_ms = LatencyMs::of(&latency);
        let mean = Column::Avg.figure(&summary.steps[0]);
        assert!(["≥11.0", "≥10.999"].contains(&mean.as_str()), "{mean}");
        assert_eq!(summary.steps[0].latency_ms.at_least, ["mean", "p95", "p99", "max"]);
        let columns = [Column::P50, Column::P90, Column::Avg];
        assert!(has_lower_bounds(&summary, &columns) && !has_lower_bounds(&summary, &columns[..2]));
    }

    #[test]
    fn rows_name_scenario_and_package_only_where_needed() {
        let mut summary = sample::summary();
        let label = |summary: &Summary| Labels::of(summary).label("p", "s", "GET /");
        assert_eq!(label(&summary), "GET /");
        let mut other = summary.scenarios[0].clone();
        other.package = "other".into();
        summary.scenarios.push(other);
        assert_eq!(label(&summary), "p::s: GET /");
        summary.scenarios[1].name = "other".into();
        assert_eq!(label(&summary), "s: GET /");
    }

    #[test]
    fn columns_are_chosen_by_name_and_an_unknown_one_is_refused_with_the_nearest() {
        let columns = ["avg", "min", "med", "p90", "max"].map(|name| name.parse::<Column>().unwrap());
        assert_eq!(columns, [Column::Avg, Column::Min, Column::P50, Column::P90, Column::Max]);
        for (_, column) in Column::NAMES {
            let text = table(&sample::summary(), &[column]);
            assert!(text.lines().next().unwrap().ends_with(column.header()));
        }
        let error = "p96".parse::<Column>().unwrap_err();
        assert!(error.contains("`p96`") && error.contains("did you mean"), "{error}");
        let error = "throughput".parse::<Column>().unwrap_err();
        assert!(error.contains("count, errors, 429s"), "{error}");
    }

    #[test]
    fn milliseconds_keep_a_figure_that_is_below_one() {
        for (value, want) in [
            (None, "-"),
            (Some(0.0), "0.0"),
            (Some(0.045), "0.045"),
            (Some(9.84), "9.8"),
            (Some(1410.24), "1410.2"),
        ] {
            assert_eq!(ms(value), want);
        }
    }

    #[test]
    fn the_totals_line_names_what_is_out_of_the_ordinary_only_where_there_was_some() {
        let mut sum = sample::summary().totals;
        assert_eq!(totals(&sum), "totals: 1800 requests, 0 errors, 0 rate-limited, 15.0 req/s avg");
        sum.interrupted = 3;
        assert!(totals(&sum).contains("0 rate-limited, 3 interrupted, 15.0 req/s avg"));
        (sum.retries, sum.generator_errors) = (2, 1);
        let line = totals(&sum);
        assert!(line.contains("3 interrupted, 2 sent again, 1 not sent by the generator, 15.0"), "{line}");
    }
}
