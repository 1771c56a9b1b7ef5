//! The report as plain text for people.

use std::fmt::Write as _;

use super::{Style, attribution, phases, processes};
use crate::model::arrivals;
use crate::model::event::Warning;
use crate::model::http::is_generators_own;
use crate::model::plain::plain;
use crate::model::stats::StepKind;
use crate::model::success::no_success;
use crate::model::summary::{Scenario, Step, Summary};
use crate::model::table::{self, Column, Labels};
use crate::model::verdict::Verdict;

/// How a report is set.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) columns: Vec<Column>,
    /// Whether the requests' phases are shown.
    pub(crate) phases: bool,
    pub(crate) style: Style,
    /// Warnings are wrapped at this many characters.
    pub(crate) width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { columns: Column::STANDARD.to_vec(), phases: false, style: Style::Plain, width: 110 }
    }
}

/// The whole page: table, totals, thresholds, checks, errors, where the time goes, what processes used,
/// warnings. A section that has nothing
/// to say is left out. Foreign text is stripped of whatever a terminal would obey.
pub(crate) fn report(summary: &Summary, options: &Options) -> String {
    let style = options.style;
    let mut out = table::table(summary, &options.columns);
    if table::has_lower_bounds(summary, &options.columns) {
        out.push_str("≥: at least; requests that were cut off would have taken longer\n");
    }
    let _ = writeln!(out, "\n{}", style.bold(&table::totals(&summary.totals)));
    if options.phases {
        out.push_str(&phases::section(summary, style));
    }
    out.push_str(&titled("load", style, &arrivals::section(summary)));
    out.push_str(&thresholds(summary, style));
    out.push_str(&checks(summary, style));
    out.push_str(&flows(summary, style));
    out.push_str(&metrics(summary, style));
    out.push_str(&errors(summary, style));
    out.push_str(&attribution::section(summary, style));
    out.push_str(&processes::section(summary, style));
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

pub(super) fn titled(title: &str, style: Style, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{}\n{body}", style.bold(title)) }
}

fn thresholds(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let rows: Vec<_> = summary
        .thresholds
        .iter()
        .map(|threshold| {
            let metric = labels.label(&threshold.package, &threshold.scenario, &threshold.metric);
            let cells = vec![metric, plain(&threshold.expression), plain(&threshold.finding())];
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

/// How often each flow of a mix ran.
fn flows(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let mut rows = Vec::new();
    for scenario in &summary.scenarios {
        for flow in &scenario.flows {
            let of = |name: &str| labels.label(&scenario.package, &scenario.name, name);
            let counts = format!("{} of {} iterations", flow.iterations, scenario.iterations);
            let mut cells = vec![of(&flow.name), format!("weight {}", flow.weight), counts];
            if flow.failed_iterations > 0 {
                cells.push(format!("{} failed", flow.failed_iterations));
            }
            rows.push((style.mark(flow.failed_iterations == 0), cells));
        }
    }
    titled("flows", style, &aligned(&rows))
}

fn metrics(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let rows: Vec<_> = summary
        .metrics
        .iter()
        .map(|metric| {
            let name = labels.label(&metric.package, &metric.scenario, &metric.name);
            let [kind, words] = metric.figures.cells();
            (String::new(), vec![name, kind, words])
        })
        .collect();
    titled("metrics", style, &aligned(&rows))
}

fn errors(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let mut body = String::new();
    for scenario in &summary.scenarios {
        iteration_errors(&mut body, scenario, labels);
    }
    let mut rows = Vec::new();
    for step in &summary.steps {
        let name = labels.label(&step.package, &step.scenario, &step.step);
        let (own, others) = breakdown(step);
        if step.errors > 0 {
            let count = format!("{} of {}", step.errors, step.count);
            rows.push((style.red("✗"), vec![name.clone(), count, others]));
        }
        if step.generator_errors > 0 {
            let count = format!("{} not sent by the generator", step.generator_errors);
            rows.push((style.red("✗"), vec![name, count, own]));
        }
    }
    body.push_str(&aligned(&rows));
    titled("errors", style, &body)
}

fn iteration_errors(out: &mut String, scenario: &Scenario, labels: Labels) {
    let mut facts = Vec::new();
    for (count, what) in [
        (scenario.failed_iterations, "failed"),
        (scenario.panics, "of them panicked"),
        (scenario.interrupted_iterations, "more were cut off at the end"),
    ] {
        if count > 0 {
            facts.push(format!("{count} {what}"));
        }
    }
    facts.extend(arrivals::dropped(scenario).map(|dropped| format!("dropped: {dropped}")));
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

/// `generator_address: 2`, what the generator could not send, and `status 200: 597, status 503: 3, timeout: 1`, what
/// became of the rest.
fn breakdown(step: &Step) -> (String, String) {
    let status = step.status.iter().map(|(status, count)| format!("status {status}: {count}"));
    let status = status.filter(|_| step.kind == StepKind::Request);
    let types = |of_generator: bool| {
        let some = step.error_types.iter().filter(move |(class, _)| is_generators_own(class) == of_generator);
        some.map(|(class, count)| format!("{}: {count}", plain(class)))
    };
    let joined = |parts: Vec<String>| parts.join(", ");
    (joined(types(true).collect()), joined(status.chain(types(false)).collect()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;
    use crate::model::stats::DropCause;
    use crate::model::summary::{Band, Check, ErrorCount, Flow};
    use crate::model::verdict::Verdict;

    fn plainly(summary: &Summary) -> String {
        report(summary, &Options::default())
    }

    #[test]
    fn a_run_on_one_page() {
        insta::assert_snapshot!(plainly(&sample::summary()));
    }

    #[test]
    fn each_flow_of_a_mix_is_told_with_how_often_it_ran() {
        let mut summary = sample::summary();
        let flow = |name: &str, weight, iterations, failed_iterations| Flow {
            name: name.to_owned(),
            weight,
            iterations,
            failed_iterations,
            interrupted_iterations: 0,
        };
        summary.scenarios[0].flows = vec![flow("browse", 5, 500, 0), flow("buy", 1, 100, 7)];
        let section = "\nflows\n  ✓ browse  weight 5  500 of 600 iterations\n  \
                       ✗ buy     weight 1  100 of 600 iterations  7 failed\n";
        assert!(plainly(&summary).contains(section), "{}", plainly(&summary));
    }

    /// Two scenarios; errors, checks that fail, requests cut off, spans missing, too few traces for shares.
    fn troubled() -> Summary {
        let mut summary = sample::summary();
        let mut other = summary.scenarios[0].clone();
        other.name = "read".into();
        (other.iterations, other.failed_iterations, other.panics) = (210, 10, 1);
        (other.interrupted_iterations, other.dropped_iterations) = (3, 2);
        other.dropped = [(DropCause::Pool, 2)].into();
        other.errors = vec![
            ErrorCount { message: "connection reset by peer".into(), count: 9 },
            ErrorCount { message: "panicked at loadtests/read.rs:12: \u{1b}[2Jno id".into(), count: 1 },
        ];
        summary.scenarios.push(other);
        let mut step = summary.steps[0].clone();
        (step.scenario, step.step) = ("read".into(), "GET /posts".into());
        (step.count, step.errors, step.interrupted) = (210, 10, 3);
        step.status = [(200, 200), (503, 1)].into();
        step.error_types = [("reset".to_owned(), 9)].into();
        (step.latency_ms.censored, step.latency_ms.at_least) = (3, vec!["p99".into(), "max".into()]);
        step.generator_errors = 2;
        step.error_types.insert("generator_address".into(), 2);
        summary.steps.push(step);
        for (passes, fails) in [(600, 0), (598, 2)] {
            let name = format!("registered{}", if fails > 0 { " with a name" } else { "" });
            let (package, scenario) = (sample::PACKAGE.to_owned(), sample::SCENARIO.to_owned());
            summary.checks.push(Check { package, scenario, name, passes, fails });
        }
        let mut few = summary.attribution[1].clone();
        (few.scenario, few.step, few.band) = ("read".into(), "GET /posts".into(), Band::All);
        (few.requests, few.requests_in_band) = (12, 12);
        few.operations.clear();
        few.slowest = summary.attribution[0].slowest.clone();
        summary.attribution.push(few);
        summary.run.trace.requests_joined = 1797;
        summary.run.trace.not_joined =
            [("no server span".to_owned(), 2), ("parent missing".to_owned(), 1)].into();
        summary.verdict = Verdict::Interrupted;
        summary.health.valid = false;
        summary
    }

    #[test]
    fn a_run_in_trouble_on_one_page() {
        insta::assert_snapshot!(plainly(&troubled()));
        assert_eq!(
            failures(&troubled()),
            [
                "the run was interrupted; the figures are those up to then",
                "1 threshold failed",
                "the measurement is not valid; see the warnings"
            ]
        );
    }

    #[test]
    fn phases_are_shown_on_demand() {
        let text = report(&sample::summary(), &Options { phases: true, ..Options::default() });
        let section = text.split("phases\n").nth(1).unwrap().split("\n\n").next().unwrap();
        insta::assert_snapshot!(section);
    }

    #[test]
    fn phases_in_which_requests_were_cut_off_are_marked() {
        let mut summary = sample::summary();
        let waiting = summary.steps[0].phases_ms.get_mut("waiting").unwrap();
        (waiting.p95, waiting.at_least) = (500.0, vec!["p95".to_owned()]);
        let text = report(&summary, &Options { phases: true, ..Options::default() });
        assert!(text.contains(" ≥500.0 ") && text.contains("might have been in that phase"), "{text}");
        assert_eq!(text.matches('≥').count(), 2, "{text}");
    }

    #[test]
    fn operations_shown_sum_to_the_mean_that_is_shown() {
        let text = plainly(&sample::summary());
        let section = text.split("around p95").nth(1).unwrap();
        let mean: f64 = section.split("mean ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let rows = section.lines().skip(2).take_while(|line| !line.contains("on average"));
        let sum: f64 = rows
            .map(|row| {
                let figure =
                    row.split_whitespace().find(|word| word.contains('.') && word.parse::<f64>().is_ok());
                figure.unwrap().parse::<f64>().unwrap()
            })
            .sum();
        assert!((sum - mean).abs() < 0.35, "{sum} of {mean}, each rounded to a tenth");
        assert!(section.contains("others (3)"), "{section}");
    }

    #[test]
    fn cpu_is_blamed_only_where_the_service_waited_for_it() {
        let hint = |ratio| {
            let mut summary = sample::summary();
            summary.health.processes[0].runqueue_wait_ratio = ratio;
            let text = plainly(&summary);
            text.lines().find(|line| line.contains("bcrypt.hash  ")).unwrap().to_owned()
        };
        assert!(hint(Some(1.0)).ends_with(", waiting for CPU"), "{}", hint(Some(1.0)));
        for ratio in [Some(0.9), None] {
            let hint = hint(ratio);
            assert!(hint.contains('×') && !hint.contains("waiting"), "{hint}");
        }
    }

    #[test]
    fn no_foreign_name_reaches_the_terminal_as_a_sequence() {
        let evil = "\u{1b}]0;owned\u{7}\u{1b}[31mx\r\ny\u{9b}2J\u{202e}";
        let mut summary = troubled();
        summary.scenarios[1].name = evil.into();
        summary.scenarios[1].errors[0].message = evil.into();
        summary.steps[3].scenario = evil.into();
        summary.steps[3].step = evil.into();
        summary.steps[3].error_types = [(evil.to_owned(), 1)].into();
        summary.checks[0].name = evil.into();
        for text in [&mut summary.thresholds[0].metric, &mut summary.health.warnings[0].message] {
            *text = evil.into();
        }
        for attribution in &mut summary.attribution {
            attribution.step = evil.into();
            attribution.slowest.iter_mut().for_each(|slow| slow.trace_id = evil.into());
            for operation in &mut attribution.operations {
                (operation.service, operation.operation) = (evil.into(), evil.into());
            }
        }
        summary.run.trace.not_joined = [(evil.to_owned(), 1)].into();
        let text = plainly(&summary);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n') && !text.contains('\u{202e}'), "{text:?}");
        assert!(!text.contains("owned"), "{text}");
    }

    #[test]
    fn colour_adds_sequences_and_nothing_else() {
        let options = Options { style: Style::Colour, ..Options::default() };
        let coloured = report(&sample::summary(), &options);
        assert!(coloured.contains("\u{1b}[31m✗\u{1b}[0m"));
        let bare: String = coloured.lines().map(|line| plain(line) + "\n").collect();
        assert_eq!(bare, plainly(&sample::summary()));
    }

    #[test]
    fn warnings_are_wrapped_at_the_width_and_keep_every_word() {
        let words = format!("{} {}", "word ".repeat(60).trim(), "x".repeat(150));
        let wrapped = wrap(&words, 80);
        assert!(wrapped.lines().all(|line| line.chars().count() <= 80 || line.trim() == "x".repeat(150)));
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("    ")), "{wrapped}");
        assert!(wrapped.split_whitespace().eq(words.split_whitespace()));
    }

    #[test]
    fn a_run_without_tracing_has_no_section_for_it() {
        let mut summary = sample::summary();
        summary.attribution.clear();
        summary.run.trace = crate::model::summary::Trace::default();
        assert!(!plainly(&summary).contains("where the time goes"));
    }
}
