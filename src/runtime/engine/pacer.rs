//! The pacer: a thread of its own that hands out what falls due, by absolute instants. An OS timer is ten times as punctual
//! as a runtime's. When it was not awake for a while, because the process was stopped or had no CPU, the arrivals of that time
//! are not made up for, and a load of users goes on where it stood.

use std::iter::Peekable;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::schedule::{Action, Due, Schedule};
use crate::sys::clock;

/// The pacer wakes up so often even when nothing is due, to see whether it could.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Awake so long after it was due, the pacer is not just late: what it hands out at once would be a burst.
const AWAY: Duration = Duration::from_millis(200);

/// The load of one slot. It begins when it is told to.
pub(super) struct Lane {
    schedule: Peekable<Schedule>,
    is_open: bool,
    begun: Option<Instant>,
}

impl Lane {
    pub(super) fn new(schedule: Schedule, is_open: bool) -> Self {
        Self { schedule: schedule.peekable(), is_open, begun: None }
    }

    /// The pacer was not awake up to `now`, for so long. What a ramp had to do meanwhile would come as one burst: it goes
    /// on where it stood. Arrivals are due when they are due.
    fn pause(&mut self, now: Instant, duration: Duration) {
        if !self.is_open {
            self.begun = self.begun.map(|begun| if begun < now { begun + duration } else { begun });
        }
    }

    /// When its next entry falls due.
    fn next_at(&mut self) -> Option<Instant> {
        let begun = self.begun?;
        // What lies beyond the clock's end never falls due.
        self.schedule.peek().and_then(|due| begun.checked_add(due.at))
    }
}

/// The load of a slot begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) slot: usize,
    pub(super) at: Instant,
}

/// Takes what falls due.
pub(super) trait HandOut {
    fn begin(&mut self, begin: Begin);
    /// An iteration is to start that was due `at`.
    fn arrive(&mut self, slot: usize, at: Instant);
    /// An iteration was due `at`, while the pacer was not awake.
    fn miss(&mut self, slot: usize, at: Instant);
    /// Anything else.
    fn act(&mut self, slot: usize, action: Action);
    /// All that was due by now has been handed over.
    fn flush(&mut self);
}

/// The passing of time, and word from the phase meanwhile.
pub(super) trait Time {
    fn now(&self) -> Instant;
    fn wait(&mut self, until: Instant) -> Wake;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// It is time.
    Due,
    Begin(Begin),
    /// The phase is over.
    Over,
}

/// The real clock.
pub(super) struct Clock<'n> {
    pub(super) news: &'n Receiver<Begin>,
}

impl Time for Clock<'_> {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn wait(&mut self, until: Instant) -> Wake {
        match self.news.recv_timeout(until.saturating_duration_since(clock::now())) {
            Ok(begin) => Wake::Begin(begin),
            Err(RecvTimeoutError::Timeout) => Wake::Due,
            Err(RecvTimeoutError::Disconnected) => Wake::Over,
        }
    }
}

/// Hands out each lane's entries, in order, until the phase is over.
pub(super) fn run(mut lanes: Vec<Lane>, time: &mut impl Time, out: &mut impl HandOut) {
    let mut expected = time.now();
    loop {
        let now = time.now();
        let late = now.saturating_duration_since(expected);
        let was_away = late > AWAY;
        if was_away {
            lanes.iter_mut().for_each(|lane| lane.pause(now, late));
        }
        while let Some((at, slot)) = next(&mut lanes).filter(|(at, _)| *at <= now) {
            let Some(Due { action, .. }) = lanes[slot].schedule.next() else { break };
            match action {
                Action::Arrive if was_away => out.miss(slot, at),
                Action::Arrive => out.arrive(slot, at),
                action => out.act(slot, action),
            }
        }
        out.flush();
        let until = next(&mut lanes).map_or(now + HEARTBEAT, |(at, _)| at.min(now + HEARTBEAT));
        match time.wait(until) {
            Wake::Due => {}
            Wake::Begin(begin) => {
                lanes[begin.slot].begun = Some(begin.at);
                out.begin(begin);
            }
            Wake::Over => return,
        }
        // Woken by news it is earlier, which is no harm: the rest of the wait is added to what counts as away.
        expected = until;
    }
}

/// What falls due next, and in which lane.
fn next(lanes: &mut [Lane]) -> Option<(Instant, usize)> {
    lanes.iter_mut().enumerate().filter_map(|(slot, lane)| Some((lane.next_at()?, slot))).min()
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{self, Grace};
    use super::*;
    use crate::model::load::{LoadModel, Open, Stage};
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::rc::Rc;
    use std::sync::mpsc::{Sender, channel};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn rate(rate: f64, seconds: u64) -> Lane {
        let per = Duration::from_secs(1);
        let duration = Duration::from_secs(seconds);
        let load = LoadModel::ConstantArrivalRate { rate, per, duration, open: Open::default() };
        Lane::new(schedule::of(&load, Grace { stop: ms(0), ramp_down: ms(0) }, 0), true)
    }

    /// Wakes up as it is asked to, but for what the script says; then it is over.
    struct Script {
        start: Instant,
        now: Rc<Cell<Instant>>,
        news: VecDeque<Begin>,
        /// At the first wait that ends after the one, the other is the time.
        jumps: VecDeque<(Duration, Duration)>,
        end: Duration,
    }

    impl Script {
        fn new(end: Duration, jumps: &[(Duration, Duration)]) -> Self {
            let start = clock::now();
            let jumps = jumps.iter().copied().collect();
            Self { start, now: Rc::new(Cell::new(start)), news: VecDeque::new(), jumps, end }
        }

        fn begin(mut self, slot: usize, at: Duration) -> Self {
            self.news.push_back(Begin { slot, at: self.start + at });
            self
        }
    }

    impl Time for Script {
        fn now(&self) -> Instant {
            self.now.get()
        }

        fn wait(&mut self, until: Instant) -> Wake {
            if let Some(begin) = self.news.pop_front() {
                return Wake::Begin(begin);
            }
            self.now.set(self.now.get().max(until));
            if let Some((after, to)) =
                self.jumps.front().copied().filter(|(after, _)| until > self.start + *after)
            {
                debug_assert!(after < to, "time goes forward");
                self.jumps.pop_front();
                self.now.set(self.now.get().max(self.start + to));
            }
            if self.now.get() > self.start + self.end { Wake::Over } else { Wake::Due }
        }
    }

    /// (slot, due, handed out) in milliseconds.
    #[derive(Default)]
    struct Log {
        clock: Option<(Instant, Rc<Cell<Instant>>)>,
        arrived: Vec<(usize, u64)>,
        missed: Vec<(usize, u64)>,
        acted: Vec<(usize, Action)>,
        /// When each of those was handed out.
        at: Vec<u64>,
    }

    impl Log {
        fn offset(&self, at: Instant) -> u64 {
            at.duration_since(self.clock.as_ref().unwrap().0).as_millis() as u64
        }
    }

    impl HandOut for Log {
        fn begin(&mut self, _: Begin) {}

        fn arrive(&mut self, slot: usize, at: Instant) {
            self.arrived.push((slot, self.offset(at)));
        }

        fn miss(&mut self, slot: usize, at: Instant) {
            self.missed.push((slot, self.offset(at)));
        }

        fn act(&mut self, slot: usize, action: Action) {
            self.acted.push((slot, action));
            self.at.push(self.offset(self.clock.as_ref().unwrap().1.get()));
        }

        fn flush(&mut self) {}
    }

    fn run_script(lanes: Vec<Lane>, mut script: Script) -> Log {
        let mut log = Log { clock: Some((script.start, script.now.clone())), ..Log::default() };
        run(lanes, &mut script, &mut log);
        log
    }

    #[test]
    fn what_falls_due_is_handed_out_in_order_over_all_lanes() {
        let script = Script::new(ms(1500), &[]).begin(0, ms(0)).begin(1, ms(100));
        let log = run_script(vec![rate(4.0, 1), rate(2.0, 1), rate(9.0, 1)], script);
        assert_eq!(log.arrived, [(0, 0), (1, 100), (0, 250), (0, 500), (1, 600), (0, 750)]);
        let ends = [Action::RetireAll, Action::CutAll];
        let of = |slot| ends.map(|action| (slot, action));
        assert_eq!(log.acted, [of(0), of(1)].concat());
        assert!(log.missed.is_empty());
    }

    #[test]
    fn arrivals_of_the_time_that_the_process_was_stopped_are_missed_and_not_made_up_for() {
        let script = Script::new(ms(1500), &[(ms(305), ms(655))]).begin(0, ms(0));
        let log = run_script(vec![rate(100.0, 1)], script);
        let times = |lo: u64, hi: u64| (lo..hi).map(|n| (0, n * 10)).collect::<Vec<_>>();
        // The pacer was last awake at 300 ms, and then at 655.
        assert_eq!(log.missed, times(31, 66));
        assert_eq!(log.arrived, [times(0, 31), times(66, 100)].concat());
        assert_eq!(log.acted.len(), 2);
    }

    #[test]
    fn a_ramp_goes_on_where_the_process_was_stopped() {
        let stages = vec![Stage::new(ms(1000), 100.0)];
        let grace = Grace { stop: ms(0), ramp_down: ms(0) };
        let lane = Lane::new(schedule::of(&LoadModel::RampingVus { stages }, grace, 0), false);
        let script = Script::new(ms(2500), &[(ms(305), ms(955))]).begin(0, ms(0));
        let log = run_script(vec![lane], script);
        let at = |user: usize| log.at[user];
        assert_eq!(log.acted.len(), 102, "a hundred starts and both ends");
        // User n is due at 10·(n + 1) ms; the stop was from 310 to 955 ms.
        assert_eq!((at(29), at(30), at(31), at(99), at(100)), (300, 955, 965, 1645, 1645));
    }

    #[test]
    fn a_pacer_that_is_just_late_hands_all_out_at_once() {
        let script = Script::new(ms(1500), &[(ms(305), ms(505))]).begin(0, ms(0));
        let log = run_script(vec![rate(100.0, 1)], script);
        assert_eq!((log.arrived.len(), log.missed.len()), (100, 0));
    }

    #[test]
    fn a_stop_in_a_long_wait_misses_what_fell_due_and_no_more() {
        let script = Script::new(Duration::from_secs(25), &[(ms(4000), ms(12_000))]).begin(0, ms(0));
        let log = run_script(vec![rate(0.1, 30)], script);
        assert_eq!((log.arrived, log.missed), (vec![(0, 0), (0, 20_000)], vec![(0, 10_000)]));
    }

    #[test]
    fn on_the_real_clock_nothing_is_early_and_the_end_of_the_phase_ends_the_wait() {
        struct Early(Sender<bool>);
        impl HandOut for Early {
            fn begin(&mut self, _: Begin) {}
            fn arrive(&mut self, _: usize, at: Instant) {
                let _ = self.0.send(clock::now() >= at);
            }
            fn miss(&mut self, _: usize, at: Instant) {
                let _ = self.0.send(clock::now() >= at);
            }
            fn act(&mut self, _: usize, _: Action) {}
            fn flush(&mut self) {}
        }
        let ((tell, news), (note, due)) = (channel(), channel());
        tell.send(Begin { slot: 0, at: clock::now() }).unwrap();
        let pacer = std::thread::spawn(move || {
            run(vec![rate(100.0, 3600)], &mut Clock { news: &news }, &mut Early(note));
        });
        assert_eq!(due.iter().take(6).collect::<Vec<_>>(), [true; 6]);
        drop(tell);
        pacer.join().unwrap();
    }
}
