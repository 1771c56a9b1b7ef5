//! Values that must not be written down, and what stands in their place.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::event::Event;
use super::redact;
use super::stats::{ErrorTally, Interval, ScenarioStats, Series};

/// What stands where a secret stood.
pub(crate) const MASK: &str = "***";

/// What a URL keeps as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Values that must not be written, as they are and as URLs have them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secrets {
    /// The longest first: one that contains another goes first, so that nothing of it is left.
    values: Vec<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl<'a> FromIterator<&'a str> for Secrets {
    /// A value of several lines is masked line by line, because output is.
    fn from_iter<I: IntoIterator<Item = &'a str>>(values: I) -> Self {
        let lines = values.into_iter().flat_map(str::lines).filter(|line| !line.trim().is_empty());
        let mut values: Vec<String> = lines
            .flat_map(|line| [line.to_owned(), utf8_percent_encode(line, UNRESERVED).to_string()])
            .collect();
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }
}

#[cfg(feature = "cli")]
impl FromIterator<Secrets> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secrets>>(sets: I) -> Self {
        let values: Vec<String> = sets.into_iter().flat_map(|set| set.values).collect();
        values.iter().map(String::as_str).collect()
    }
}

impl Secrets {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn mask<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        self.values.iter().fold(text.into(), |text, value| {
            if text.contains(value.as_str()) { Cow::Owned(text.replace(value, MASK)) } else { text }
        })
    }

    pub(crate) fn mask_in(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text.as_str()) {
            *text = masked;
        }
    }

    /// The length of the longest, in bytes.
    #[cfg(feature = "cli")]
    pub(crate) fn longest(&self) -> usize {
        self.values.first().map_or(0, String::len)
    }

    /// Masks what a scenario's code can have put into an event: messages, and names of its own.
    pub(crate) fn mask_event(&self, event: &mut Event) {
        match event {
            Event::Warning(warning) => warning.message = self.mask_message(&warning.message),
            Event::Failed(failure) => failure.message = self.mask_message(&failure.message),
            Event::Interval(interval) => self.mask_interval(interval),
            Event::Listing(_) | Event::PhaseStarted { .. } | Event::Aborted(_) | Event::Finished(_) => {}
        }
    }

    pub(crate) fn mask_interval(&self, interval: &mut Interval) {
        interval.scenarios.values_mut().for_each(|stats| self.mask_stats(stats));
    }

    /// A message can quote a URL whose credentials nobody has configured.
    fn mask_message(&self, message: &str) -> String {
        self.mask(redact::text(message)).into_owned()
    }

    fn mask_stats(&self, stats: &mut ScenarioStats) {
        let errors = std::mem::take(&mut stats.errors);
        stats.errors = ErrorTally { other: errors.other, ..ErrorTally::default() };
        for (message, count) in errors.messages {
            stats.errors.add(&self.mask_message(&message), count);
        }
        for series in stats.tagged.values_mut() {
            if let Series::Iterations(iterations) = series {
                self.mask_stats(iterations);
            }
        }
        if self.is_empty() {
            return;
        }
        // Names that become equal are one row.
        for (mut key, step) in std::mem::take(&mut stats.steps) {
            self.mask_in(&mut key.name);
            stats.steps.entry(key).or_default().merge(&step);
        }
        for (name, check) in std::mem::take(&mut stats.checks) {
            let own = stats.checks.entry(self.mask(name).into_owned()).or_default();
            own.merge(check);
        }
        for (name, metric) in std::mem::take(&mut stats.metrics) {
            stats.metrics.entry(self.mask(name).into_owned()).or_default().merge(&metric);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Failure, FailureKind, Warning};
    use super::super::stats::{Phase, StepKey, StepKind, StepStats};
    use super::*;

    #[test]
    fn a_secret_is_masked_whole_in_each_form_that_it_has() {
        let secrets: Secrets = ["key", "key ring/1", "two\nlines", " \n"].into_iter().collect();
        for (text, masked) in [
            ("a key ring/1 and a key", "a *** and a ***"),
            ("GET /key%20ring%2F1", "GET /***"),
            ("two, lines", "***, ***"),
            ("nothing of the kind", "nothing of the kind"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        assert_eq!(format!("{secrets:?}"), "Secrets(5)");
    }

    #[test]
    fn a_secret_is_in_no_event() {
        let secrets: Secrets = ["canary"].into_iter().collect();
        let step = |name: &str| StepKey { kind: StepKind::Request, name: name.to_owned() };
        let mut stats = ScenarioStats::default();
        stats.errors.add("login with canary failed at http://user:pw@host/?k=v", 2);
        stats.errors.other = 1;
        stats.steps.insert(step("GET /canary"), StepStats { count: 1, ..StepStats::default() });
        stats.steps.insert(step("GET /***"), StepStats { count: 2, ..StepStats::default() });
        stats.checks.entry("canary sings".to_owned()).or_default().passes = 3;
        let mut interval = Event::Interval(Interval {
            phase: Phase::Load,
            start_ms: 0,
            end_ms: 1000,
            scenarios: [("s".to_owned(), stats)].into(),
        });
        secrets.mask_event(&mut interval);
        let Event::Interval(Interval { scenarios, .. }) = &interval else { panic!("{interval:?}") };
        let stats = &scenarios["s"];
        assert_eq!(
            stats.errors.messages,
            [("login with *** failed at http://REDACTED@host/?k=REDACTED".to_owned(), 2)]
        );
        assert_eq!(stats.errors.other, 1);
        assert_eq!(stats.steps[&step("GET /***")].count, 3);
        assert_eq!(stats.checks["*** sings"].passes, 3);
        for mut event in [
            interval.clone(),
            Event::Warning(Warning::new("w", "canary")),
            Event::Failed(Failure { kind: FailureKind::Run, message: "canary".to_owned() }),
        ] {
            secrets.mask_event(&mut event);
            let json = serde_json::to_string(&event).unwrap();
            assert!(!json.contains("canary"), "{json}");
        }
    }
}
