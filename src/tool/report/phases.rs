//! What the time of requests consists of, phase by phase.

use super::{Style, text};
use crate::model::phases::HttpPhase;
use crate::model::summary::{PhaseMs, Summary};
use crate::model::table::{self, Labels, ms};

/// The percentiles that are shown, each in a line of its own.
const SHOWN: [(&str, Figure); 2] = [("p50", |phase| phase.p50), ("p95", |phase| phase.p95)];

type Figure = fn(&PhaseMs) -> f64;

/// A table of two lines a step, in milliseconds; nothing where there are no requests.
pub(super) fn section(summary: &Summary, style: Style) -> String {
    let labels = Labels::of(summary);
    let mut rows = Vec::new();
    for step in summary.steps.iter().filter(|step| !step.phases_ms.is_empty()) {
        let name = labels.label(&step.package, &step.scenario, &step.step);
        for (shown, of) in SHOWN {
            let figure = |phase: HttpPhase| ms(step.phases_ms.get(phase.name()).map(of));
            rows.push((format!("{name} {shown}"), HttpPhase::ALL.map(figure).to_vec()));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = HttpPhase::ALL.map(|phase| (phase.name(), phase.name().len().max(8)));
    text::titled("phases", style, &table::lines("step, ms", &columns, &rows))
}
