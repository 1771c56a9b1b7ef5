//! How busy a worker thread was in its busiest second. A mean over the whole load would hide a stretch in which the thread
//! could do no more.

use std::time::{Duration, Instant};

use crate::model::health::{Busy, SATURATED};
use crate::sys::clock;

/// What is shorter is counted with what follows: for a moment any thread is busy.
const SECOND: Duration = Duration::from_millis(900);

/// Looked at about once a second, from when on it is measured.
pub(super) struct Effort {
    begun: Instant,
    /// The last look that ended a second.
    last: Look,
    busiest: Option<Busy>,
    saturated: Duration,
}

/// At an instant, the CPU time that the thread has had; `None` where nobody tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    at: Instant,
    cpu: Option<Duration>,
}

impl Look {
    /// At this thread, now.
    pub(super) fn now() -> Self {
        Self { at: clock::now(), cpu: clock::thread_times().map(|times| times.cpu) }
    }
}

impl Effort {
    pub(super) fn begin(first: Look) -> Self {
        Self { begun: first.at, last: first, busiest: None, saturated: Duration::ZERO }
    }

    pub(super) fn look(&mut self, now: Look) {
        if now.at.saturating_duration_since(self.last.at) >= SECOND {
            self.count(now);
        }
    }

    /// The busiest second (of what is shorter than one, the whole), and the part of the time that it was saturated.
    pub(super) fn end(mut self, now: Look) -> (Option<Busy>, f64) {
        self.look(now);
        if self.busiest.is_none() {
            self.count(now);
        }
        let whole = now.at.saturating_duration_since(self.begun).as_secs_f64();
        (self.busiest, self.saturated.as_secs_f64() / whole.max(f64::MIN_POSITIVE))
    }

    fn count(&mut self, now: Look) {
        let length = now.at.saturating_duration_since(self.last.at);
        let had = self.last.cpu.zip(now.cpu).map(|(before, after)| after.saturating_sub(before));
        let busy = had.map(|had| Busy {
            cpu: had.as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE),
            from: self.last.at.saturating_duration_since(self.begun),
            length,
        });
        if busy.is_some_and(|busy| busy.cpu > SATURATED) {
            self.saturated += length;
        }
        let found = self.busiest.into_iter().chain(busy);
        self.busiest = found.reduce(|busiest, other| if other.cpu > busiest.cpu { other } else { busiest });
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Of looks at these times, with so much CPU time had until then, in milliseconds: share in percent, from, length.
    fn busiest(looks: &[(u64, u64)]) -> Option<(u64, u64, u64)> {
        let (busiest, _) = ended(looks);
        let Busy { cpu, from, length } = busiest?;
        Some(((cpu * 100.0).round() as u64, from.as_millis() as u64, length.as_millis() as u64))
    }

    fn ended(looks: &[(u64, u64)]) -> (Option<Busy>, f64) {
        let start = clock::now();
        let mut looks = looks.iter().map(|(at, cpu)| Look { at: start + ms(*at), cpu: Some(ms(*cpu)) });
        let (first, last) = (looks.next().unwrap(), looks.next_back().unwrap());
        let mut effort = Effort::begin(first);
        looks.for_each(|look| effort.look(look));
        effort.end(last)
    }

    #[test]
    fn the_busiest_second_counts_however_idle_the_others_are() {
        let looks = [(0, 5000), (1000, 5010), (2010, 5980), (3000, 5990), (10_000, 6000)];
        assert_eq!(busiest(&looks), Some((96, 1000, 1010)));
    }

    #[test]
    fn what_is_shorter_than_a_second_is_counted_with_what_follows() {
        // Half a second of hard work at the beginning, and at the end.
        assert_eq!(busiest(&[(0, 0), (500, 500), (1500, 600), (2000, 1100)]), Some((40, 0, 1500)));
        assert_eq!(busiest(&[(0, 0), (300, 270)]), Some((90, 0, 300)), "there is no other");
    }

    #[test]
    fn seconds_in_which_it_could_hardly_do_more_are_a_part_of_the_time() {
        let looks = [(0, 0), (1000, 960), (2000, 1900), (3000, 2890), (4000, 2900), (8000, 3000)];
        let (_, saturated) = ended(&looks);
        assert!((saturated - 0.25).abs() < 1e-9, "{saturated}");
    }

    #[test]
    fn where_nobody_tells_nothing_is_known() {
        let look = |at| Look { at, cpu: None };
        let start = clock::now();
        assert_eq!(Effort::begin(look(start)).end(look(start + ms(2000))), (None, 0.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_computes_is_busy() {
        let effort = Effort::begin(Look::now());
        let first = clock::thread_times().unwrap().cpu;
        while clock::thread_times().unwrap().cpu < first + ms(50) {}
        let busy = effort.end(Look::now()).0.unwrap();
        assert!(busy.cpu > 0.0 && busy.length.mul_f64(busy.cpu) >= ms(50), "{busy:?}");
    }
}
