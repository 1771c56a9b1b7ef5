//! The thresholds that end a run as soon as they fail.

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
            closed,
        }
    }

    /// Takes an interval in; gives back the thresholds that end the run now.
    pub(super) fn pass(&mut self, interval: &Interval) -> Vec<Aborted> {
        if interval.phase != Phase::Load || self.thresholds.is_empty() || self.closed.is_set() {
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
            .filter(|(_, threshold)| threshold.text().delay_abort_eval.as_millis() <= u128::from(at_ms))
            .filter_map(|(scenario, threshold)| {
                let seconds = self.stats.measured(scenario).as_secs_f64();
                let judged = threshold.judge(self.stats.load.get(scenario)?, seconds);
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
