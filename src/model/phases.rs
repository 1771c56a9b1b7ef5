//! What the time of a request consists of, phase by phase: of one request, and as distributions over many.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::latency::Latency;

/// A part of a request's time. They follow each other, and together they are the whole of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HttpPhase {
    /// Waiting for a connection that has room: for a stream of HTTP/2, for another request that connects, and the time of
    /// attempts that were given up.
    Blocked,
    /// Looking the host's addresses up.
    Dns,
    /// Connecting, and where there is no TLS, greeting.
    Connecting,
    /// The TLS handshake, and greeting.
    Tls,
    /// From the request's first byte to its last.
    Sending,
    /// From there to the response's first byte.
    Waiting,
    /// From there to its last byte.
    #[default]
    Receiving,
}

impl HttpPhase {
    pub(crate) const ALL: [Self; 7] = [
        Self::Blocked,
        Self::Dns,
        Self::Connecting,
        Self::Tls,
        Self::Sending,
        Self::Waiting,
        Self::Receiving,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Dns => "dns",
            Self::Connecting => "connecting",
            Self::Tls => "tls",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Receiving => "receiving",
        }
    }
}

/// The phases of one request. Those before `sending` are zero on a connection that was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseTimes {
    times: [Duration; HttpPhase::ALL.len()],
    /// The one that the request was in when it ended.
    pub(crate) last: HttpPhase,
}

impl PhaseTimes {
    pub(crate) fn set(&mut self, phase: HttpPhase, time: Duration) {
        self.times[phase as usize] = time;
    }

    pub(crate) fn get(&self, phase: HttpPhase) -> Duration {
        self.times[phase as usize]
    }

    /// k6's `http_req_duration`: from the request's first byte to the response's last.
    pub(crate) fn duration(&self) -> Duration {
        [HttpPhase::Sending, HttpPhase::Waiting, HttpPhase::Receiving]
            .map(|phase| self.get(phase))
            .iter()
            .sum()
    }
}

/// The distributions of the phases over the requests that have a duration, those that were cut off among them.
///
/// Of phases that ended only what is not zero is recorded, so that a kept connection costs nothing; how often a phase was
/// zero follows from the number of requests, which [`of`](Self::of) is given. Two significant digits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    recorded: [Option<Box<Latency>>; HttpPhase::ALL.len()],
}

impl Phases {
    pub(crate) fn record(&mut self, times: &PhaseTimes) {
        for phase in HttpPhase::ALL {
            self.record_whole(phase, times.get(phase));
        }
    }

    /// Takes in a request that was cut off: what it was in has a lower bound, and so has what would have come after it.
    pub(crate) fn record_cut_off(&mut self, times: &PhaseTimes) {
        for phase in HttpPhase::ALL {
            if phase < times.last {
                self.record_whole(phase, times.get(phase));
            } else {
                self.latency(phase).record_censored(times.get(phase));
            }
        }
    }

    fn record_whole(&mut self, phase: HttpPhase, time: Duration) {
        if !time.is_zero() {
            self.latency(phase).record(time);
        }
    }

    fn latency(&mut self, phase: HttpPhase) -> &mut Latency {
        self.recorded[phase as usize].get_or_insert_with(|| Box::new(Latency::coarse()))
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, other) in self.recorded.iter_mut().zip(&other.recorded) {
            if let Some(other) = other {
                own.get_or_insert_with(|| Box::new(Latency::coarse())).merge(other);
            }
        }
    }

    /// The phase's distribution over `requests` requests, those that were cut off among them: where nothing was recorded
    /// of one, it was zero.
    pub(crate) fn of(&self, phase: HttpPhase, requests: u64) -> Latency {
        let mut latency = self.recorded[phase as usize].as_deref().cloned().unwrap_or_else(Latency::coarse);
        let zeros = requests.saturating_sub(latency.count());
        latency.record_zeros(zeros);
        latency
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.recorded.iter().all(Option::is_none)
    }

    /// Whether the phase was ever more than zero.
    pub(crate) fn has(&self, phase: HttpPhase) -> bool {
        self.recorded[phase as usize]
            .as_ref()
            .and_then(|latency| latency.max_nanos())
            .is_some_and(|max| max > 0)
    }
}

impl Serialize for Phases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = HttpPhase::ALL.iter().zip(&self.recorded);
        serializer.collect_map(named.filter_map(|(phase, latency)| Some((phase.name(), latency.as_ref()?))))
    }
}

impl<'de> Deserialize<'de> for Phases {
    /// A phase that this version does not know is passed over.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut named = BTreeMap::<String, Box<Latency>>::deserialize(deserializer)?;
        Ok(Self { recorded: HttpPhase::ALL.map(|phase| named.remove(phase.name())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(waiting_ms: u64, tls_ms: u64) -> PhaseTimes {
        let mut times = PhaseTimes::default();
        times.set(HttpPhase::Waiting, Duration::from_millis(waiting_ms));
        times.set(HttpPhase::Tls, Duration::from_millis(tls_ms));
        times
    }

    #[test]
    fn a_phase_that_was_skipped_counts_as_zero_in_every_figure() {
        let mut phases = Phases::default();
        phases.record(&times(10, 40));
        (0..3).for_each(|_| phases.record(&times(10, 0)));
        let mut merged = Phases::default();
        merged.merge(&serde_json::from_str(&serde_json::to_string(&phases).unwrap()).unwrap());
        let tls = merged.of(HttpPhase::Tls, 4);
        let at = |percent| tls.percentile(percent).unwrap().nanos;
        assert_eq!((at(50.0), at(75.0)), (0, 0));
        assert!(at(76.0).abs_diff(40_000_000) <= 400_000, "{}", at(76.0));
        assert_eq!((tls.min_nanos(), tls.mean_nanos(), tls.complete_count()), (Some(0), Some(10e6), 4));
        assert_eq!(merged.of(HttpPhase::Waiting, 4).min_nanos(), Some(10_000_000));
        assert!(!merged.has(HttpPhase::Dns));
        assert_eq!(merged.of(HttpPhase::Dns, 4).percentile(99.0).unwrap().nanos, 0);
        assert!(merged.of(HttpPhase::Dns, 0).percentile(99.0).is_none());
    }

    #[test]
    fn of_a_request_that_was_cut_off_the_phases_before_are_exact_and_those_from_there_on_lower_bounds() {
        let mut phases = Phases::default();
        (0..8).for_each(|_| phases.record(&times(10, 0)));
        for last in [HttpPhase::Waiting, HttpPhase::Tls] {
            let mut cut = times(if last == HttpPhase::Tls { 0 } else { 500 }, 40);
            cut.last = last;
            phases.record_cut_off(&cut);
        }
        let of = |phase| phases.of(phase, 10);
        for (phase, complete, censored) in [
            (HttpPhase::Connecting, 10, 0),
            (HttpPhase::Tls, 9, 1),
            (HttpPhase::Sending, 9, 1),
            (HttpPhase::Waiting, 8, 2),
            (HttpPhase::Receiving, 8, 2),
        ] {
            let latency = of(phase);
            assert_eq!(
                (latency.complete_count(), latency.censored_count()),
                (complete, censored),
                "{phase:?}"
            );
        }
        let p95 = of(HttpPhase::Waiting).percentile(95.0).unwrap();
        assert!(p95.at_least && p95.nanos.abs_diff(500_000_000) <= 5_000_000, "{p95:?}");
        assert!(!of(HttpPhase::Connecting).percentile(100.0).unwrap().at_least);
        assert!(phases.has(HttpPhase::Tls) && !phases.has(HttpPhase::Receiving));
        let mut merged = Phases::default();
        merged.merge(&serde_json::from_str(&serde_json::to_string(&phases).unwrap()).unwrap());
        assert_eq!(merged.of(HttpPhase::Waiting, 10).percentile(95.0), Some(p95));
    }

    #[test]
    fn the_duration_is_what_lies_between_the_first_and_the_last_byte() {
        let mut times = PhaseTimes::default();
        for (nth, phase) in HttpPhase::ALL.into_iter().enumerate() {
            times.set(phase, Duration::from_millis(10_u64.pow(nth as u32)));
        }
        assert_eq!(times.duration(), Duration::from_secs(1110));
    }

    #[test]
    fn a_phase_of_a_later_version_is_passed_over() {
        let mut phases = Phases::default();
        phases.record(&times(7, 0));
        let text = serde_json::to_string(&phases).unwrap().replace("waiting", "pondering");
        assert!(serde_json::from_str::<Phases>(&text).unwrap().is_empty());
    }
}
