//! When a scenario's load begins among those of its phase, and how much of its beginning is left out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LoadModel;
use crate::model::duration;
use crate::model::nearest::nearest;

/// When a load begins, and from when on it is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Timing {
    /// So long after the phase's begin, or after the end of the scenario that this one starts after.
    #[serde(with = "duration::text")]
    pub(crate) start_time: Duration,
    /// Begins when this other scenario is wholly over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_after: Option<String>,
    /// Iterations that are scheduled in the first so much time are in no figure.
    #[serde(with = "duration::text")]
    pub(crate) warm_up: Duration,
}

impl Timing {
    /// What of it does not fit the load, if anything.
    pub(crate) fn check(&self, load: &LoadModel) -> Result<(), String> {
        if self.warm_up >= load.duration() {
            let at_most = if load.iterations().is_some() { "at most " } else { "" };
            return Err(format!(
                "the warm-up of {} leaves nothing of a load of {at_most}{} to be measured",
                duration::format(self.warm_up),
                duration::format(load.duration())
            ));
        }
        Ok(())
    }

    /// What is to be said beside the load, for people: `, after login`, `, 10s after login`, `, warm-up 5s`.
    pub(crate) fn describe(&self) -> String {
        let later = (!self.start_time.is_zero()).then(|| duration::format(self.start_time));
        let mut text = match (later, &self.start_after) {
            (None, None) => String::new(),
            (Some(later), None) => format!(", from {later} on"),
            (None, Some(other)) => format!(", after {other}"),
            (Some(later), Some(other)) => format!(", {later} after {other}"),
        };
        if !self.warm_up.is_zero() {
            text += &format!(", warm-up {}", duration::format(self.warm_up));
        }
        text
    }
}

/// What is wrong with the order in which scenarios start after each other, given (name, the one it starts after).
pub(crate) fn check_order<'a>(scenarios: &[(&'a str, Option<&'a str>)]) -> Result<(), String> {
    let after = |name: &str| scenarios.iter().find(|(known, _)| *known == name);
    for (name, other) in scenarios {
        let Some(other) = other else { continue };
        if after(other).is_none() {
            let near = nearest(other, scenarios.iter().map(|(known, _)| *known));
            return Err(format!(
                "scenario `{name}` starts after `{other}`, which this binary does not have{near}"
            ));
        }
        let mut chain = vec![*name];
        let mut next = Some(*other);
        while let Some(one) = next {
            let closes = chain.contains(&one);
            chain.push(one);
            if closes {
                return Err(format!("these scenarios wait for each other: {}", chain.join(" after ")));
            }
            next = after(one).and_then(|(_, other)| *other);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_circles_are_refused() {
        assert_eq!(check_order(&[("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("a"))]), Ok(()));
        let unknown = check_order(&[("login", None), ("b", Some("logn"))]).unwrap_err();
        assert!(unknown.contains("`logn`") && unknown.contains("`login`"), "{unknown}");
        let circle = check_order(&[("a", Some("b")), ("b", Some("a"))]).unwrap_err();
        assert!(circle.ends_with("a after b after a"), "{circle}");
        assert!(check_order(&[("a", Some("a"))]).unwrap_err().ends_with("a after a"));
        let lasso = check_order(&[("x", Some("a")), ("a", Some("b")), ("b", Some("a"))]).unwrap_err();
        assert!(lasso.contains("a after b after a"), "{lasso}");
    }

    #[test]
    fn a_warm_up_leaves_something_to_be_measured() {
        let load = LoadModel::ConstantVus { vus: 1, duration: Duration::from_secs(10) };
        let warm_up = |seconds| Timing { warm_up: Duration::from_secs(seconds), ..Timing::default() };
        assert_eq!(warm_up(9).check(&load), Ok(()));
        assert_eq!(warm_up(9).describe(), ", warm-up 9s");
        assert!(warm_up(10).check(&load).unwrap_err().ends_with("of a load of 10s to be measured"));
        let max_duration = Duration::from_secs(10);
        let load = LoadModel::SharedIterations { vus: 1, iterations: 9, max_duration };
        assert!(warm_up(10).check(&load).unwrap_err().ends_with("of a load of at most 10s to be measured"));
    }
}
