//! Checks, by name.

use super::{MOST_NAMES, OTHER, Shard};

impl Shard {
    pub(crate) fn check(&mut self, slot: usize, name: &str, passed: bool) {
        let scenario = &mut self.scenarios[slot];
        if let Some(check) = scenario.stats.checks.get_mut(name) {
            check.add(passed);
            return;
        }
        let mut row = name;
        if !scenario.checks.contains(name) {
            if scenario.checks.len() < MOST_NAMES {
                scenario.checks.insert(name.to_owned());
            } else {
                self.overflowed.get_or_insert_with(|| format!("the check `{name}`"));
                row = OTHER;
            }
        }
        scenario.stats.checks.entry(row.to_owned()).or_default().add(passed);
    }
}
