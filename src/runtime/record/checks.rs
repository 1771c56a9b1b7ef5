//! Checks, by name.

use super::origin::{Origin, Sample, What};
use super::requests::matching;
use super::{OTHER, ScenarioShard, Shard};
use crate::model::stats::{CheckStats, Series};

impl Shard {
    pub(crate) fn check(&mut self, slot: usize, name: &str, passed: bool, origin: Origin<'_>) {
        let ScenarioShard { stats, checks, recording, .. } = &mut self.scenarios[slot];
        if let Some(check) = stats.checks.get_mut(name) {
            check.add(passed);
        } else {
            let has_row =
                checks.contains(name) || recording.admit_check(name) && checks.insert(name.to_owned());
            let row = if has_row { name } else { OTHER };
            stats.checks.entry(row.to_owned()).or_default().add(passed);
        }
        let sample = Sample { origin, tags: &recording.tags, what: What::Check { name } };
        for number in matching(&recording.checks, &sample) {
            let series = stats.tagged.entry(number).or_insert_with(|| Series::Checks(CheckStats::default()));
            if let Series::Checks(checks) = series {
                checks.add(passed);
            }
        }
    }
}
