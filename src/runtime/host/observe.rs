//! What is told of a phase while it goes on.

use std::sync::Arc;

use super::gate::Gate;
use super::vitals::Vitals;
use crate::model::event::{Event, Warning};
use crate::model::plan::RunPlan;
use crate::model::stats::{Interval, Phase, ScenarioStats};
use crate::runtime::engine::Observer;
use crate::runtime::record::Recording;
use crate::runtime::telemetry::export::Export;
use crate::sys::clock;

/// Hands on what happens in a phase.
pub(super) struct Told<'r, T> {
    pub(super) phase: Phase,
    pub(super) scenarios: Vec<String>,
    pub(super) export: Option<&'r Export>,
    pub(super) plan: &'r RunPlan,
    pub(super) recordings: Vec<Arc<Recording>>,
    pub(super) gate: &'r mut Gate,
    /// What the reference phase measured: it has one scenario.
    pub(super) alone: ScenarioStats,
    pub(super) tell: &'r mut T,
    /// While load is running.
    pub(super) vitals: Option<Vitals>,
}

impl<T: FnMut(Event)> Observer for Told<'_, T> {
    fn started(&mut self) {
        if self.phase == Phase::Load {
            self.vitals = self.begin_vitals();
        }
        let scenarios = self.scenarios.clone();
        (self.tell)(Event::PhaseStarted { phase: self.phase, scenarios, unix_ns: clock::unix_nanos() });
    }

    fn measuring(&mut self) {
        if let Some(vitals) = &mut self.vitals {
            vitals.measure();
        }
    }

    fn interval(&mut self, mut interval: Interval) {
        self.plan.secrets.mask_interval(&mut interval);
        if let Some(export) = self.export {
            export.metrics(&interval);
        }
        if self.phase == Phase::Reference {
            interval.scenarios.values().for_each(|stats| self.alone.merge(stats));
        }
        let aborted = self.gate.pass(&interval);
        (self.tell)(Event::Interval(interval));
        for news in self.recordings.iter().flat_map(|recording| recording.take_news()) {
            (self.tell)(Event::Warning(Warning::new("too-many-steps", news)));
        }
        aborted.into_iter().for_each(|aborted| (self.tell)(Event::Aborted(aborted)));
    }

    fn over(&mut self) {
        self.gate.over(self.phase);
    }

    fn warning(&mut self, warning: Warning) {
        (self.tell)(Event::Warning(warning));
    }
}

impl<T: FnMut(Event)> Told<'_, T> {
    fn begin_vitals(&mut self) -> Option<Vitals> {
        let begun = Vitals::begin();
        if let Err(error) = &begun {
            let message = format!(
                "whether this process is stopped, or its clock set, cannot be seen: no thread for it ({error})"
            );
            (self.tell)(Event::Warning(Warning::new("vitals", message)));
        }
        begun.ok()
    }
}

/// Why a load makes no sense, where every iteration failed.
pub(super) fn failing(stats: &ScenarioStats) -> Option<String> {
    let (all, failed) = (stats.iterations, stats.failed_iterations);
    let message = stats.errors.commonest()?;
    (all > 0 && failed == all).then(|| {
        format!("no iteration succeeded: all {all} of the reference failed, most often with: {message}")
    })
}
