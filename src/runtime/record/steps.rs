//! The rows of a scenario: found by their names, up to a limit.

use std::collections::HashMap;
use std::sync::Arc;

use super::{OTHER, Shard};
use crate::model::redact;
use crate::model::stats::{StepKey, StepKind, StepStats};

/// Which row of a scenario a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Step {
    pub(super) key: StepKey,
    /// The key's name, to be shared with spans.
    name: Arc<str>,
    /// Where it stands in its scenario.
    pub(super) rank: u32,
    pub(super) stats: StepStats,
    pub(super) touched: bool,
}

impl Shard {
    /// The row `METHOD template`, and its name, which is without the template's user information.
    pub(crate) fn request_step(
        &mut self,
        slot: usize,
        method: &http::Method,
        template: &str,
    ) -> (StepId, Arc<str>) {
        let of_method = self.scenarios[slot].requests.iter().find(|(known, _)| known == method);
        let known = of_method.and_then(|(_, steps)| steps.get(template)).copied();
        let id = known.unwrap_or_else(|| {
            let name = format!("{method} {}", redact::without_user(template));
            let (id, _) = self.step(slot, StepKind::Request, &name);
            // Names beyond the limit are not remembered: they may be without number.
            if self.scenarios[slot].steps[id.0].key.name != OTHER {
                let requests = &mut self.scenarios[slot].requests;
                let at = requests.iter().position(|(known, _)| known == method).unwrap_or_else(|| {
                    requests.push((method.clone(), HashMap::new()));
                    requests.len() - 1
                });
                requests[at].1.insert(template.to_owned(), id);
            }
            id
        });
        (id, self.scenarios[slot].steps[id.0].name.clone())
    }

    /// The row `name`, and its name: `(other)` when there are too many.
    pub(crate) fn step(&mut self, slot: usize, kind: StepKind, name: &str) -> (StepId, Arc<str>) {
        let scenario = &mut self.scenarios[slot];
        let key = (kind, name.to_owned());
        if let Some(id) = scenario.named.get(&key) {
            return (*id, scenario.steps[id.0].name.clone());
        }
        let rank = match scenario.recording.admit_step(kind, name) {
            Some(rank) => rank,
            None if name == OTHER => u32::MAX,
            None => return self.step(slot, kind, OTHER),
        };
        let id = StepId(scenario.steps.len());
        let shared: Arc<str> = name.into();
        let key_name = name.to_owned();
        scenario.steps.push(Step {
            key: StepKey { kind, name: key_name },
            name: shared.clone(),
            rank,
            stats: StepStats::default(),
            touched: false,
        });
        scenario.named.insert(key, id);
        (id, shared)
    }
}
