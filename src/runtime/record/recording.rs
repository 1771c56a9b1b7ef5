//! What is recorded of one scenario, agreed between its worker threads: the series that its thresholds ask for, and which
//! names get rows of their own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::{Mutex, PoisonError};

use super::OTHER;
use crate::model::custom::MetricKind;
use crate::model::plan::ScenarioInfo;
use crate::model::stats::StepKind;
use crate::model::tags::{Selector, Tags};
use crate::model::threshold::{Samples, Threshold};

/// Series of one sort of samples, by number.
pub(super) type Selectors = Vec<(u32, Selector)>;

/// Shared by the threads of a run. The lock is taken only when a thread meets a name for the first time.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(super) requests: Selectors,
    pub(super) steps: Selectors,
    pub(super) iterations: Selectors,
    pub(super) checks: Selectors,
    pub(super) metrics: HashMap<String, Selectors>,
    /// What every sample of the scenario has.
    pub(super) tags: Tags,
    /// Steps and checks that thresholds name: they have rows of their own beside the limit.
    judged_steps: HashSet<(StepKind, String)>,
    judged_checks: HashSet<String>,
    max_names: usize,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    /// With the order in which they first appeared.
    steps: HashMap<(StepKind, String), u32>,
    checks: HashSet<String>,
    /// How many of those the limit is for.
    limited_steps: usize,
    limited_checks: usize,
    metrics: BTreeMap<String, MetricKind>,
    /// Sorts of names of which there were too many.
    full: Vec<&'static str>,
    /// To be told.
    news: Vec<String>,
}

impl Recording {
    /// For a scenario with these tags.
    pub(crate) fn new(info: &ScenarioInfo, tags: Tags, max_names: usize) -> Self {
        let mut recording = Self {
            requests: Vec::new(),
            steps: Vec::new(),
            iterations: Vec::new(),
            checks: Vec::new(),
            metrics: HashMap::new(),
            tags,
            judged_steps: HashSet::new(),
            judged_checks: HashSet::new(),
            max_names,
            names: Mutex::new(Names { metrics: info.declared.metrics.clone(), ..Names::default() }),
        };
        for threshold in Threshold::of(info).into_iter().flatten() {
            if let Some((samples, name)) = threshold.names() {
                let name = name.to_owned();
                match samples {
                    Samples::Requests => recording.judged_steps.insert((StepKind::Request, name)),
                    Samples::Steps => recording.judged_steps.insert((StepKind::Step, name)),
                    Samples::Checks => recording.judged_checks.insert(name),
                    Samples::Iterations | Samples::Metric(_) => false,
                };
            }
            let Some(series) = threshold.series_of() else { continue };
            let selectors = match series.samples {
                Samples::Requests => &mut recording.requests,
                Samples::Steps => &mut recording.steps,
                Samples::Iterations => &mut recording.iterations,
                Samples::Checks => &mut recording.checks,
                Samples::Metric(name) => recording.metrics.entry(name).or_default(),
            };
            // Thresholds on the same samples share a series.
            if selectors.iter().all(|(number, _)| *number != series.number) {
                selectors.push((series.number, series.selector));
            }
        }
        recording
    }

    /// The order in which the step appeared; `None` where it has to share the row of all others.
    pub(super) fn admit_step(&self, kind: StepKind, name: &str) -> Option<u32> {
        let names = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        if let Some(rank) = names.steps.get(&key) {
            return Some(*rank);
        }
        if !self.judged_steps.contains(&key) {
            if names.limited_steps >= self.max_names {
                self.note(names, "steps", name);
                return None;
            }
            names.limited_steps += 1;
        }
        let rank = names.steps.len() as u32;
        names.steps.insert(key, rank);
        Some(rank)
    }

    /// Whether the check gets a row of its own.
    pub(super) fn admit_check(&self, name: &str) -> bool {
        let names = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.checks.contains(name) {
            return true;
        }
        if !self.judged_checks.contains(name) {
            if names.limited_checks >= self.max_names {
                self.note(names, "checks", name);
                return false;
            }
            names.limited_checks += 1;
        }
        names.checks.insert(name.to_owned())
    }

    /// The kind that the metric has: as declared, or as first used. `None` where it has to share a row.
    pub(super) fn admit_metric(&self, name: &str, kind: MetricKind) -> Option<MetricKind> {
        let names = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = names.metrics.get(name) {
            return Some(*kind);
        }
        if names.metrics.len() >= self.max_names {
            self.note(names, "metrics", name);
            return None;
        }
        names.metrics.insert(name.to_owned(), kind);
        Some(kind)
    }

    /// Says once of each sort that there are too many, with the first that found no place.
    fn note(&self, names: &mut Names, sort: &'static str, first: &str) {
        if names.full.contains(&sort) {
            return;
        }
        names.full.push(sort);
        let hint = match sort {
            "steps" => "put what varies into .path(…) or .query(…), or give the request a .name(…)",
            _ => "keep what varies out of their names",
        };
        names.news.push(format!(
            "more than {} distinct {sort}: `{first}` and all further ones are counted together as `{OTHER}`: {hint}",
            self.max_names
        ));
    }

    /// What there is to tell since the last time.
    pub(crate) fn take_news(&self) -> Vec<String> {
        mem::take(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner).news)
    }
}
