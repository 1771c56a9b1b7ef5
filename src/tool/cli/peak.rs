//! The most load that a run is to put on its target, as far as it is known before.

use std::net::IpAddr;

use reqwest::Url;

use super::find::Binary;
use super::problem::Problem;
use crate::model::event::Warning;
use crate::model::plan::ScenarioInfo;
use crate::model::verdict::Outcome;

/// The most that runs at a time: scenarios that start after each other never run beside each other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Peak {
    /// Iterations that open models start, a second.
    rate: f64,
    users: u64,
    /// How many scenarios have a closed model, whose rate is the server's to set.
    closed: usize,
}

impl Peak {
    pub(super) fn of(scenarios: &[ScenarioInfo]) -> Self {
        let is_there = |name: &str| scenarios.iter().any(|other| other.name == name);
        let first = |info: &&ScenarioInfo| !info.timing.start_after.as_deref().is_some_and(is_there);
        let all = scenarios.iter().filter(first).map(|info| Self::from_on(info, scenarios, scenarios.len()));
        Self {
            closed: scenarios.iter().filter(|info| info.load.open().is_none()).count(),
            ..all.fold(Self::default(), Self::and)
        }
    }

    /// Of a scenario and of those that start after it, which are in no circle longer than `depth`.
    fn from_on(info: &ScenarioInfo, scenarios: &[ScenarioInfo], depth: usize) -> Self {
        let own = Self { rate: info.load.peak_rate(), users: info.load.vus_max().into(), closed: 0 };
        let Some(depth) = depth.checked_sub(1) else { return own };
        let later = scenarios.iter().filter(|other| other.timing.start_after.as_ref() == Some(&info.name));
        let later =
            later.map(|other| Self::from_on(other, scenarios, depth)).fold(Self::default(), Self::and);
        Self { rate: own.rate.max(later.rate), users: own.users.max(later.users), closed: 0 }
    }

    fn and(self, other: Self) -> Self {
        Self { rate: self.rate + other.rate, users: self.users + other.users, closed: 0 }
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let users = format!("up to {} {}", self.users, if self.users == 1 { "user" } else { "users" });
        let rate = (self.rate > 0.0).then(|| format!("up to {} iterations/s", rounded(self.rate)));
        match (rate, self.closed) {
            (None, _) => users,
            (Some(rate), 0) => format!("{rate}, {users}"),
            (Some(rate), _) => format!("{rate} beside closed models, {users}"),
        }
    }
}

/// Refuses a plan whose rate is above `max-rate`; with what cannot be known of it.
pub(super) fn check(binary: &Binary) -> Result<Option<Warning>, Problem> {
    let Some(most) = &binary.config.max_rate else { return Ok(None) };
    let (peak, target) = (Peak::of(&binary.scenarios), &binary.target.name);
    if peak.rate > most.value.a_second() {
        let message = format!(
            "the scenarios of {target} would start up to {} iterations a second, and max-rate is {} ({})",
            rounded(peak.rate),
            most.value,
            most.source
        );
        return Err(Problem::new(Outcome::Usage, message));
    }
    Ok((peak.closed > 0).then(|| {
        let message = format!(
            "max-rate says nothing of {} of the scenarios of {target}: how often users of closed models iterate is \
             known once they do; an arrival rate can be held to it",
            peak.closed
        );
        Warning::new("max-rate", message)
    }))
}

fn rounded(rate: f64) -> f64 {
    (rate * 1000.0).round() / 1000.0
}

/// Scheme, host and port of a URL that leads to another machine.
pub(super) fn elsewhere(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let here = host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
    // Without what may stand before the host: that is a secret.
    (!here).then(|| {
        format!("{}://{host}{}", url.scheme(), url.port().map_or_else(String::new, |port| format!(":{port}")))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::load::{LoadModel, LoadOverride, Timing};
    use crate::model::plan::{Declared, ReferencePlan};

    fn scenario(name: &str, after: Option<&str>, rate: Option<&str>) -> ScenarioInfo {
        let over = LoadOverride { rate: rate.map(|rate| rate.parse().unwrap()), ..LoadOverride::default() };
        let over = LoadOverride { duration: rate.map(|_| Duration::from_secs(1)), ..over };
        ScenarioInfo {
            name: name.to_owned(),
            load: over.apply(&LoadModel::default()).unwrap(),
            timing: Timing { start_after: after.map(str::to_owned), ..Timing::default() },
            reference: ReferencePlan::default(),
            flows: Vec::new(),
            thresholds: Vec::new(),
            declared: Declared::default(),
        }
    }

    #[test]
    fn what_runs_beside_each_other_adds_up_and_what_runs_after_does_not() {
        let (a, b, c, d) = (
            scenario("a", None, Some("60/m")),
            scenario("b", Some("a"), Some("20/s")),
            scenario("c", Some("a"), Some("3/s")),
            scenario("d", Some("not here"), Some("5/s")),
        );
        for (scenarios, rate) in [
            (vec![a.clone()], 1.0),
            (vec![a.clone(), b.clone()], 20.0),
            (vec![a.clone(), b.clone(), c.clone()], 23.0),
            (vec![a, b, c, d], 28.0),
            (vec![scenario("u", None, None)], 0.0),
        ] {
            let peak = Peak::of(&scenarios);
            assert!((peak.rate - rate).abs() < 1e-9, "{peak:?} {rate}");
        }
    }

    #[test]
    fn people_are_told_what_can_be_known() {
        let (open, closed) = (scenario("a", None, Some("1.5/s")), scenario("b", None, None));
        let users = |one: &ScenarioInfo| one.load.vus_max();
        for (scenarios, told) in [
            (vec![closed.clone()], "up to 1 user".to_owned()),
            (vec![open.clone()], format!("up to 1.5 iterations/s, up to {} users", users(&open))),
            (
                vec![open.clone(), closed],
                format!("up to 1.5 iterations/s beside closed models, up to {} users", users(&open) + 1),
            ),
        ] {
            assert_eq!(Peak::of(&scenarios).describe(), told);
        }
    }

    #[test]
    fn a_target_is_told_when_it_is_not_this_machine_and_without_its_credentials() {
        for (url, told) in [
            ("http://127.0.0.1:8080/a", None),
            ("http://127.8.0.1", None),
            ("http://localhost:1/", None),
            ("http://[::1]:8080", None),
            ("not a url", None),
            ("http://user:canary@shop.example/a?b=c", Some("http://shop.example")),
            ("https://localhost.example:8443", Some("https://localhost.example:8443")),
            ("http://192.0.2.1:80", Some("http://192.0.2.1")),
            ("http://[2001:db8::1]:81/", Some("http://[2001:db8::1]:81")),
        ] {
            assert_eq!(elsewhere(url).as_deref(), told, "{url}");
        }
    }
}
