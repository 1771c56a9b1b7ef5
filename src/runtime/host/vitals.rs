//! What the scenario process sees of itself while load is running: whether it was stopped, its clock set, its CPU taken.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::model::health::{Signs, Throttled};
use crate::sys::{cgroup, clock};

/// How often the heart beats.
const BEAT: Duration = Duration::from_millis(50);

/// Looks at the process from the load's beginning to its end.
#[derive(Debug)]
pub(super) struct Vitals {
    /// When the measured time began, and how much was throttled until then.
    before: (Instant, Option<Throttled>),
    stop: Sender<()>,
    thread: JoinHandle<Heart>,
}

impl Vitals {
    pub(super) fn begin() -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let mut heart = Heart::new(Beat::now());
        let beat = move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                heart.beat(Beat::now());
            }
            // A gap that the end falls into is one all the same.
            heart.beat(Beat::now());
            heart
        };
        let thread = thread::Builder::new().name("heartbeat".to_owned()).spawn(beat)?;
        Ok(Self { before: throttled(), stop, thread })
    }

    /// The warm-up is over: what was throttled in it does not count.
    pub(super) fn measure(&mut self) {
        self.before = throttled();
    }

    /// What was seen; of the workers nothing.
    pub(super) fn end(self) -> Signs {
        let Self { before: (from, before), stop, thread } = self;
        drop(stop);
        let (now, after) = throttled();
        let within = now.saturating_duration_since(from);
        let throttling = before.zip(after).map(|(before, after)| after.since(before, within));
        // The thread runs nobody else's code: it does not panic.
        let heart = thread.join().ok();
        let heart = heart.as_ref();
        Signs {
            throttling,
            clock_step_ns: heart.map_or(0, |heart| heart.clock_step_ns),
            stopped: heart.map_or(Duration::ZERO, |heart| heart.stopped),
            starved: heart.map_or(Duration::ZERO, |heart| heart.starved),
            ..Signs::default()
        }
    }
}

fn throttled() -> (Instant, Option<Throttled>) {
    (clock::now(), cgroup::throttled())
}

/// Both clocks at one instant, and how long the thread has waited for a CPU until then.
#[derive(Debug, Clone, Copy)]
struct Beat {
    monotonic: Instant,
    unix_ns: u64,
    waited: Duration,
}

impl Beat {
    fn now() -> Self {
        let (monotonic, unix_ns) = clock::both();
        let times = clock::thread_times();
        Self { monotonic, unix_ns, waited: times.map_or(Duration::ZERO, |times| times.waited) }
    }
}

#[derive(Debug)]
struct Heart {
    last: Beat,
    /// The largest step of the wall clock from one beat to the next. A clock that is slewed makes none.
    clock_step_ns: i64,
    /// The longest time that a beat was late for no want of a CPU.
    stopped: Duration,
    /// The longest time that a beat waited for a CPU.
    starved: Duration,
}

impl Heart {
    fn new(first: Beat) -> Self {
        Self { last: first, clock_step_ns: 0, stopped: Duration::ZERO, starved: Duration::ZERO }
    }

    fn beat(&mut self, now: Beat) {
        let passed = now.monotonic.saturating_duration_since(self.last.monotonic);
        let wall_ns = i128::from(now.unix_ns) - i128::from(self.last.unix_ns);
        let step = wall_ns - passed.as_nanos().cast_signed();
        if step.unsigned_abs() > u128::from(self.clock_step_ns.unsigned_abs()) {
            self.clock_step_ns = i64::try_from(step).unwrap_or(if step < 0 { -i64::MAX } else { i64::MAX });
        }
        let late = passed.saturating_sub(BEAT);
        // A thread that is stopped waits for no CPU.
        let waited = now.waited.saturating_sub(self.last.waited).min(late);
        self.starved = self.starved.max(waited);
        self.stopped = self.stopped.max(late.saturating_sub(waited));
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The heart after beats at these times of both clocks, in milliseconds.
    fn after(beats: &[(u64, u64)]) -> Heart {
        let beats: Vec<_> = beats.iter().map(|(monotonic, wall)| (*monotonic, *wall, 0)).collect();
        having_waited(&beats)
    }

    /// The same, and how long its thread had waited for a CPU until each.
    fn having_waited(beats: &[(u64, u64, u64)]) -> Heart {
        let start = clock::now();
        let beat = |&(monotonic, wall, waited): &(u64, u64, u64)| Beat {
            monotonic: start + Duration::from_millis(monotonic),
            unix_ns: wall * MS,
            waited: Duration::from_millis(waited),
        };
        let mut heart = Heart::new(beat(&beats[0]));
        beats[1..].iter().for_each(|at| heart.beat(beat(at)));
        heart
    }

    #[test]
    fn a_steady_heart_saw_nothing_and_a_gap_is_as_long_as_the_process_did_not_run() {
        let steady = after(&[(0, 1000), (50, 1050), (100, 1100)]);
        assert_eq!((steady.clock_step_ns, steady.stopped), (0, Duration::ZERO));
        let stopped = after(&[(0, 1000), (50, 1050), (2100, 3100), (2150, 3150)]);
        assert_eq!((stopped.clock_step_ns, stopped.stopped), (0, Duration::from_secs(2)));
    }

    #[test]
    fn a_beat_that_waited_for_a_cpu_was_not_stopped() {
        let (ms, seen) = (Duration::from_millis, |heart: &Heart| (heart.stopped, heart.starved));
        let starved = having_waited(&[(0, 1000, 7), (50, 1050, 8), (800, 1800, 758), (850, 1850, 758)]);
        assert_eq!(seen(&starved), (ms(0), ms(700)));
        // Stopped for two seconds, and late by 30 ms more.
        let both = having_waited(&[(0, 1000, 0), (2080, 3080, 30)]);
        assert_eq!(seen(&both), (ms(2000), ms(30)));
    }

    #[test]
    fn a_step_of_the_wall_clock_is_seen_either_way_and_the_largest_is_kept() {
        let on = after(&[(0, 1000), (50, 1250), (100, 1300)]);
        assert_eq!((on.clock_step_ns, on.stopped), (200 * MS as i64, Duration::ZERO));
        let back = after(&[(0, 9000), (50, 9100), (100, 150), (150, 200)]);
        assert_eq!(back.clock_step_ns, -9000 * MS as i64);
    }

    #[test]
    fn a_clock_that_is_slewed_makes_no_step() {
        // Half a millisecond a second, for a quarter of an hour.
        let beats: Vec<(u64, u64)> = (0..18_000).map(|n| (n * 50, n * 50 + n / 40)).collect();
        let slewed = after(&beats);
        assert!(slewed.clock_step_ns.unsigned_abs() <= MS, "{}", slewed.clock_step_ns);
    }

    #[test]
    fn a_process_that_runs_is_not_taken_for_stopped_or_its_clock_for_set() {
        let vitals = Vitals::begin().unwrap();
        thread::sleep(3 * BEAT);
        let signs = vitals.end();
        assert!(signs.clock_step_ns.unsigned_abs() < 100 * MS, "{signs:?}");
        assert!(signs.stopped < Duration::from_millis(500), "{signs:?}");
        assert!(signs.throttling.is_none_or(|it| it.within >= 3 * BEAT), "{signs:?}");
    }
}
