//! What open models have that closed ones have not: a rate, and users who are waiting for arrivals.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Stage;
use crate::model::duration;

/// Beyond this a schedule could not be kept to the nanosecond.
const HIGHEST_RATE: f64 = 1e8;
/// Users that are set up where nothing is said: as many as arrive in a second, within these bounds.
const DEFAULT_USERS: (f64, f64) = (10.0, 1000.0);

/// Who serves the arrivals of an open model, and how they are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Open {
    /// Users that are set up before the load begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pre_allocated_vus: Option<u32>,
    /// Users there may be; further ones are added while the load goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_vus: Option<u32>,
    /// At random, as from many people who know nothing of each other, in place of evenly.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) poisson: bool,
}

impl Open {
    /// How many users there are at first and at most, for a highest rate of `peak` arrivals a second.
    pub(super) fn users(&self, peak: f64) -> (u32, u32) {
        let (fewest, most) = DEFAULT_USERS;
        let first = self.pre_allocated_vus.unwrap_or_else(|| {
            let enough = peak.ceil().clamp(fewest, most) as u32;
            self.max_vus.map_or(enough, |max| enough.min(max))
        });
        (first, self.max_vus.unwrap_or(first))
    }

    pub(super) fn check(&self, peak: f64) -> Result<(), String> {
        let (first, most) = self.users(peak);
        if first == 0 || most == 0 {
            return Err("the number of users is 0; at least 1 is needed".into());
        }
        if first > most {
            return Err(format!("{first} users are to be pre-allocated, but there may be {most} at most"));
        }
        Ok(())
    }
}

/// So many iterations start in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Rate {
    pub(crate) count: f64,
    pub(crate) per: Duration,
}

impl Rate {
    #[cfg(feature = "cli")]
    pub(crate) fn a_second(self) -> f64 {
        self.count / self.per.as_secs_f64()
    }

    pub(super) fn check(self) -> Result<(), String> {
        let Self { count, per } = self;
        if per.is_zero() {
            return Err(
                "a rate per 0s has no meaning; give the time in which so many iterations start".into()
            );
        }
        let a_second = count / per.as_secs_f64();
        if !(count.is_finite() && count > 0.0 && a_second <= HIGHEST_RATE) {
            return Err(format!(
                "the rate {count} is not one that iterations can start at; it is above 0 and at most \
                 {HIGHEST_RATE} a second"
            ));
        }
        Ok(())
    }
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `100/s`, `6/m`, `0.5/s`, `1/10s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("`{text}` is no rate; write N/s, N/m or N/DURATION, such as 100/s or 1/10s");
        let (count, per) = text.trim().split_once('/').ok_or_else(refuse)?;
        let count = count.trim().parse().map_err(|_| refuse())?;
        let per = per.trim();
        let one = if per.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "1" };
        let per = duration::parse(&format!("{one}{per}")).map_err(|_| refuse())?;
        let rate = Self { count, per };
        rate.check().map(|()| rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, unit(self.per))
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

/// `s` for a second, `10s` for ten.
pub(super) fn unit(per: Duration) -> String {
    let text = duration::format(per);
    match text.strip_prefix('1') {
        Some(unit)
            if unit.starts_with(|c: char| c.is_ascii_alphabetic())
                && !unit.contains(|c: char| c.is_ascii_digit()) =>
        {
            unit.to_owned()
        }
        _ => text,
    }
}

/// What is wrong with a ramp of arrivals that has stages and lasts.
pub(super) fn check_ramp(start: f64, per: Duration, stages: &[Stage]) -> Result<(), String> {
    let mut from = start;
    let mut arrivals = 0.0;
    for target in std::iter::once(start).chain(stages.iter().map(|stage| stage.target)) {
        if target.is_nan() || target < 0.0 {
            return Err(format!("{target} is no rate of arrivals; it is 0 or more"));
        }
        if target > 0.0 {
            Rate { count: target, per }.check()?;
        }
    }
    for stage in stages {
        arrivals += (from + stage.target) * stage.duration.as_secs_f64();
        from = stage.target;
    }
    if arrivals <= 0.0 {
        return Err("the rate is 0 all the time; nothing would run".into());
    }
    if per.is_zero() { Rate { count: 1.0, per }.check() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_written_and_nonsense_is_refused() {
        for (text, count, millis, written) in [
            ("100/s", 100.0, 1000, "100/s"),
            ("6/m", 6.0, 60_000, "6/m"),
            ("300/1m", 300.0, 60_000, "300/m"),
            ("1/10s", 1.0, 10_000, "1/10s"),
            (" 0.5 / s ", 0.5, 1000, "0.5/s"),
            ("2/1m30s", 2.0, 90_000, "2/1m30s"),
            ("3/100ms", 3.0, 100, "3/100ms"),
        ] {
            let rate = Rate { count, per: Duration::from_millis(millis) };
            assert_eq!(text.parse(), Ok(rate), "{text}");
            assert_eq!(rate.to_string(), written);
            assert_eq!(written.parse(), Ok(rate));
        }
        for text in ["", "100", "/s", "0/s", "-1/s", "NaN/s", "inf/s", "1/0s", "1/x", "many/s", "1e12/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn users_unless_given_are_as_many_as_arrive_in_a_second_within_bounds() {
        let users = |pre_allocated_vus, max_vus, peak| {
            Open { pre_allocated_vus, max_vus, poisson: false }.users(peak)
        };
        assert_eq!(users(None, None, 0.1), (10, 10));
        assert_eq!(users(None, None, 99.5), (100, 100));
        assert_eq!(users(None, None, 20_000.0), (1000, 1000));
        assert_eq!(users(Some(5), None, 99.5), (5, 5));
        assert_eq!(users(None, Some(7), 99.5), (7, 7));
        assert_eq!(users(None, Some(700), 99.5), (100, 700));
        assert_eq!(users(Some(5), Some(7), 99.5), (5, 7));
    }
}
