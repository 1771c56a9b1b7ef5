//! What the time of requests consists of, phase by phase.

use super::{Style, text};
use crate::model::phases::HttpPhase;
use crate::model::summary::{PhaseMs, Summary};
use crate::model::table::{self, Labels, ms};

/// The percentiles that are shown, each in a line of its own.
const SHOWN: [(&str, Figure); 2] = [("p50", |phase| phase.p50), ("p95", |phase| phase.p95)];

/// What a figure is marked by that is only a lower bound.
const AT_LEAST: &str = "≥";

type Figure = fn(&PhaseMs) -> f64;

/// A table of two lines a step, in milliseconds; nothing where there are no requests.
pub(super) fn section(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let mut rows = Vec::new();
    for step in summary.steps.iter().filter(|step| !step.phases_ms.is_empty()) {
        let name = labels.label(&step.package, &step.scenario, &step.step);
        for (shown, of) in SHOWN {
            let figure = |phase: HttpPhase| {
                let figures = step.phases_ms.get(phase.name());
                let is_bound =
                    figures.is_some_and(|figures| figures.at_least.iter().any(|name| name == shown));
                format!("{}{}", if is_bound { AT_LEAST } else { "" }, ms(figures.map(of)))
            };
            rows.push((format!("{name} {shown}"), HttpPhase::ALL.map(figure).to_vec()));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = HttpPhase::ALL.map(|phase| (phase.name(), phase.name().len().max(8)));
    let mut lines = table::lines("step, ms", &columns, &rows);
    if rows.iter().flat_map(|(_, figures)| figures).any(|figure| figure.starts_with(AT_LEAST)) {
        lines.push_str("≥: at least; requests that were cut off might have been in that phase for longer\n");
    }
    text::titled("phases", style, &lines)
}
