//! The report as plain text for people.

use std::fmt::Write as _;

use super::{Style, attribution};
use crate::model::event::Warning;
use crate::model::plain::plain;
use crate::model::stats::StepKind;
use crate::model::summarise::no_success;
use crate::model::summary::{Scenario, Step, Summary};
use crate::model::table::{self, Column, Labels};
use crate::model::verdict::Verdict;

/// How a report is set.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) columns: Vec<Column>,
    pub(crate) style: Style,
    /// Warnings are wrapped at this many characters.
    pub(crate) width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { columns: Column::STANDARD.to_vec(), style: Style::Plain, width: 110 }
    }
}

/// The whole page: table, totals, thresholds, checks, errors, where the time goes, warnings. A section that has nothing
/// to say is left out. Foreign text is stripped of whatever a terminal would obey.
pub(crate) fn report(summary: &Summary, options: &Options) -> String {
    let style = options.style;
    let mut out = table::table(summary, &options.columns);
    if table::has_lower_bounds(summary) {
        out.push_str("≥: at least; requests that were cut off would have taken longer\n");
    }
    let _ = writeln!(out, "\n{}", style.bold(&table::totals(&summary.totals)));
    out.push_str(&thresholds(summary, style));
    out.push_str(&checks(summary, style));
    out.push_str(&errors(summary, style));
    out.push_str(&attribution::section(summary, style));
    out.push_str(&warnings(&summary.health.warnings, options));
    out
}

/// What the run failed for, one line each, as `error: …` on the last lines of the console. Empty when it passed.
pub(crate) fn failures(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.verdict == Verdict::Interrupted {
        lines.push("the run was interrupted; the figures are those up to then".to_owned());
    }
    lines.extend(no_success(&summary.scenarios).map(|why| plain(&why)));
    match summary.thresholds.iter().filter(|threshold| !threshold.passed).count() {
        0 => {}
        1 => lines.push("1 threshold failed".to_owned()),
        n => lines.push(format!("{n} thresholds failed")),
    }
    if !summary.health.valid {
        lines.push("the measurement is not valid; see the warnings".to_owned());
    }
    lines
}

/// Lines of a mark and cells; each column but the last as wide as its widest cell.
fn aligned(rows: &[(String, Vec<String>)]) -> String {
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().filter_map(|(_, cells)| cells.get(at)).map(|c| c.chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut out = String::new();
    for (mark, cells) in rows {
        let mut line = format!("  {mark}");
        for (at, cell) in cells.iter().enumerate() {
            let (gap, width) = (if at == 0 { " " } else { "  " }, widths[at]);
            let _ = write!(line, "{gap}{cell:width$}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn titled(title: &str, style: Style, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{}\n{body}", style.bold(title)) }
}

fn thresholds(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let rows: Vec<_> = summary
        .thresholds
        .iter()
        .map(|threshold| {
            let metric = labels.label(&threshold.package, &threshold.scenario, &threshold.metric);
            let cells = vec![metric, plain(&threshold.expression), plain(&threshold.text)];
            (style.mark(threshold.passed), cells)
        })
        .collect();
    titled("thresholds", style, &aligned(&rows))
}

fn checks(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let rows: Vec<_> = summary
        .checks
        .iter()
        .map(|check| {
            let name = labels.label(&check.package, &check.scenario, &check.name);
            let of = check.passes + check.fails;
            (style.mark(check.fails == 0), vec![name, format!("{} of {of} passed", check.passes)])
        })
        .collect();
    titled("checks", style, &aligned(&rows))
}

fn errors(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let mut body = String::new();
    for scenario in &summary.scenarios {
        iteration_errors(&mut body, scenario, labels);
    }
    let rows: Vec<_> = summary
        .steps
        .iter()
        .filter(|step| step.errors > 0)
        .map(|step| {
            let name = labels.label(&step.package, &step.scenario, &step.step);
            (style.red("✗"), vec![name, format!("{} of {}", step.errors, step.count), breakdown(step)])
        })
        .collect();
    body.push_str(&aligned(&rows));
    titled("errors", style, &body)
}

fn iteration_errors(out: &mut String, scenario: &Scenario, labels: Labels) {
    let mut facts = Vec::new();
    for (count, what) in [
        (scenario.failed_iterations, "failed"),
        (scenario.panics, "of them panicked"),
        (scenario.interrupted_iterations, "more were cut off at the end"),
        (scenario.dropped_iterations, "were dropped"),
    ] {
        if count > 0 {
            facts.push(format!("{count} {what}"));
        }
    }
    if facts.is_empty() && scenario.errors.is_empty() {
        return;
    }
    let text = format!("{} iterations: {}", scenario.iterations, facts.join(", "));
    let _ = writeln!(out, "  {}", labels.label(&scenario.package, &scenario.name, &text));
    let width = scenario.errors.iter().map(|error| error.count.to_string().len()).max().unwrap_or(0);
    for error in &scenario.errors {
        let _ = writeln!(out, "    {:>width$}× {}", error.count, plain(&error.message));
    }
}

/// `status 200: 597, status 503: 3, timeout: 1`
fn breakdown(step: &Step) -> String {
    let status = step.status.iter().map(|(status, count)| format!("status {status}: {count}"));
    let types = step.error_types.iter().map(|(class, count)| format!("{}: {count}", plain(class)));
    let parts: Vec<String> = match step.kind {
        StepKind::Request => status.chain(types).collect(),
        StepKind::Step => types.collect(),
    };
    parts.join(", ")
}

fn warnings(warnings: &[Warning], options: &Options) -> String {
    let body: String = warnings
        .iter()
        .map(|warning| {
            let text = plain(&format!("{}: {}", warning.code, warning.message));
            wrap(&text, options.width)
        })
        .collect();
    titled("warnings", options.style, &body)
}

/// Words, two spaces in at first, four from the second line on. A word longer than a line stands alone.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let (mut line, mut length) = (String::from(" "), 1);
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length + 1 + word_length > width && !line.trim().is_empty() {
            let _ = writeln!(out, "{line}");
            (line, length) = (String::from("   "), 3);
        }
        line.push(' ');
        line.push_str(word);
        length += 1 + word_length;
    }
    let _ = writeln!(out, "{line}");
    out
}
