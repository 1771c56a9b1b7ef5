//! The thresholds that end a run as soon as they fail.

use std::time::Duration;

use crate::model::event::Aborted;
use crate::model::plan::ScenarioInfo;
use crate::model::stats::{Interval, Phase, RunStats};
use crate::model::threshold::Threshold;
use crate::runtime::engine::StopFlag;

/// How often they are looked at, in milliseconds of the load.
const EVERY_MS: u64 = 2000;

/// Watches over the load of all scenarios of a run.
pub(super) struct Gate {
    /// By scenario; without those that end nothing.
    thresholds: Vec<(String, Vec<Threshold>)>,
    stats: RunStats,
    due_ms: u64,
    /// The load is at its end, and so there is none to be ended.
    is_over: bool,
    /// Set when the run is to end.
    closed: StopFlag,
}

impl Gate {
    pub(super) fn new(scenarios: &[ScenarioInfo], closed: StopFlag) -> Self {
        let aborting = |info: &ScenarioInfo| -> Vec<Threshold> {
            let read = Threshold::of(info).into_iter().flatten();
            read.filter(|threshold| threshold.text().abort_on_fail).collect()
        };
        let thresholds = scenarios.iter().map(|info| (info.name.clone(), aborting(info)));
        Self {
            thresholds: thresholds.filter(|(_, thresholds)| !thresholds.is_empty()).collect(),
            stats: RunStats::default(),
            due_ms: EVERY_MS,
            is_over: false,
            closed,
        }
    }

    /// What comes of this phase from now on ends nothing.
    pub(super) fn over(&mut self, phase: Phase) {
        self.is_over |= phase == Phase::Load;
    }

    /// Takes an interval in; gives back the thresholds that end the run now.
    pub(super) fn pass(&mut self, interval: &Interval) -> Vec<Aborted> {
        let is_of_load = interval.phase == Phase::Load && !self.is_over;
        if !is_of_load || self.thresholds.is_empty() || self.closed.is_set() {
            return Vec::new();
        }
        self.stats.add(interval);
        if interval.end_ms < self.due_ms {
            return Vec::new();
        }
        self.due_ms = interval.end_ms - interval.end_ms % EVERY_MS + EVERY_MS;
        let at_ms = interval.end_ms;
        let aborted: Vec<Aborted> = self
            .thresholds
            .iter()
            .flat_map(|(scenario, thresholds)| thresholds.iter().map(move |threshold| (scenario, threshold)))
            .filter_map(|(scenario, threshold)| {
                let stats = self.stats.load.get(scenario)?;
                // None before the scenario has begun, and in its warm-up.
                let measured = stats.measured?;
                let since =
                    Duration::from_millis(at_ms).saturating_sub(Duration::from_nanos(measured.from_ns));
                if since < threshold.text().delay_abort_eval {
                    return None;
                }
                let judged = threshold.judge(stats, measured.length().as_secs_f64());
                // What has not been seen yet is no reason to end anything.
                (judged.observed.is_some() && !judged.passed).then(|| Aborted {
                    scenario: scenario.clone(),
                    threshold: threshold.text().clone(),
                    at_ms,
                    text: judged.text,
                })
            })
            .collect();
        if !aborted.is_empty() {
            self.closed.set();
        }
        aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::ThresholdText;
    use crate::model::sample;
    use crate::model::stats::{ScenarioStats, Span};
    use std::collections::BTreeMap;

    fn gate(delay: Duration) -> Gate {
        let text = ThresholdText {
            metric: "vus".into(),
            expression: "value>5".into(),
            abort_on_fail: true,
            delay_abort_eval: delay,
            ..ThresholdText::default()
        };
        let info = ScenarioInfo { name: "s".into(), thresholds: vec![text], ..sample::infos().remove(0) };
        Gate::new(&[info], StopFlag::default())
    }

    /// Up to `end` seconds, of a scenario that is measured from `from` seconds on.
    fn interval(from: u64, end: u64) -> Interval {
        let seconds = Duration::from_secs;
        let stats =
            ScenarioStats { vus: 1, measured: Span::new(seconds(from), seconds(end)), ..Default::default() };
        let scenarios = BTreeMap::from([("s".to_owned(), stats)]);
        Interval { phase: Phase::Load, start_ms: (end - 1) * 1000, end_ms: end * 1000, scenarios }
    }

    fn ended_at(gate: &mut Gate, from: u64) -> Option<u64> {
        (1..60).find(|end| !gate.pass(&interval(from, *end)).is_empty())
    }

    #[test]
    fn nothing_ends_a_run_before_its_scenario_is_measured_and_the_delay_counts_from_then() {
        assert_eq!(ended_at(&mut gate(Duration::ZERO), 0), Some(2));
        assert_eq!(ended_at(&mut gate(Duration::ZERO), 7), Some(8));
        assert_eq!(ended_at(&mut gate(Duration::from_secs(10)), 7), Some(18));
    }

    #[test]
    fn what_is_over_is_not_ended_once_more() {
        let mut gate = gate(Duration::ZERO);
        gate.over(Phase::Reference);
        assert!(!gate.pass(&interval(0, 2)).is_empty());
        let mut gate = self::gate(Duration::ZERO);
        gate.over(Phase::Load);
        assert_eq!(ended_at(&mut gate, 0), None);
        assert!(!gate.closed.is_set());
    }
}
