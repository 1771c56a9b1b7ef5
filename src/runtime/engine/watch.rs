//! Watches over a phase: until all users are set up, until all is done, and what was measured each second meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::pacer::Begin;
use super::phase::{Ended, Observer, PhasePlan, pace, tell_all};
use super::pool::{FAILURES, Pool};
use super::schedule::Action;
use super::worker::{Command, Report};
use crate::model::event::Warning;
use crate::model::health::WorkerSigns;
use crate::model::stats::{Interval, Phase, ScenarioStats, Span};
use crate::sys::clock;

/// How often the workers' shards are taken.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to hang up once all is cut off, before it is left behind.
const HANG_UP: Duration = Duration::from_secs(2);
/// How long a worker may take to hand its shard over.
const HAND_OVER: Duration = Duration::from_millis(100);
/// How often a stop from outside is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// What arrived since the last interval was told.
#[derive(Default)]
struct Gathered {
    load: BTreeMap<String, ScenarioStats>,
    warm_up: BTreeMap<String, ScenarioStats>,
    /// Users running, by worker and row, as last reported.
    users: BTreeMap<(usize, usize), u32>,
    peaks: BTreeMap<(usize, usize), u32>,
}

/// How far a slot is.
#[derive(Debug, Clone, Copy)]
struct Course {
    /// Worker threads whose users of it have something left to do.
    undone: usize,
    /// On the phase's time.
    begun: Option<Duration>,
    over: Option<Duration>,
    added: bool,
    not_added: bool,
}

pub(super) struct Watch<'p> {
    plan: &'p PhasePlan,
    commands: &'p [UnboundedSender<Command>],
    pools: &'p [Option<Arc<Pool>>],
    stop: &'p dyn Fn() -> bool,
    observer: &'p mut dyn Observer,
    start: Instant,
    pacer: Option<Sender<Begin>>,
    has_begun: bool,
    interval_start: Duration,
    gathered: Gathered,
    /// Users whose setup is not done.
    unprepared: u64,
    /// By slot.
    courses: Vec<Course>,
    fared: Vec<WorkerSigns>,
    ended: Ended,
}

impl<'p> Watch<'p> {
    pub(super) fn new(
        plan: &'p PhasePlan,
        commands: &'p [UnboundedSender<Command>],
        pools: &'p [Option<Arc<Pool>>],
        stop: &'p dyn Fn() -> bool,
        observer: &'p mut dyn Observer,
    ) -> Self {
        let course = Course { undone: plan.workers, begun: None, over: None, added: false, not_added: false };
        Self {
            plan,
            commands,
            pools,
            stop,
            observer,
            start: clock::now(),
            pacer: None,
            has_begun: false,
            interval_start: Duration::ZERO,
            gathered: Gathered::default(),
            unprepared: plan.slots.iter().map(|slot| u64::from(slot.load.vus_at_first())).sum(),
            courses: vec![course; plan.slots.len()],
            fared: Vec::new(),
            ended: Ended::Whole,
        }
    }

    /// Setups are in no figure: no time runs until all are done.
    pub(super) fn until_prepared(&mut self, inbox: &Receiver<Report>) {
        while self.unprepared > 0 && self.glance(inbox) && self.ended == Ended::Whole {}
    }

    /// Lets the phase's time begin, unless it is over already.
    pub(super) fn begin(&mut self) {
        if self.ended != Ended::Whole {
            return;
        }
        match pace(self.plan, self.commands, self.pools) {
            Ok(pacer) => self.pacer = Some(pacer),
            Err(message) => return self.fail(message),
        }
        self.has_begun = true;
        self.observer.started();
        self.start = clock::now();
        tell_all(self.commands, || Command::Begin);
        self.begin_slots_after(None, Duration::ZERO);
    }

    /// Those that start after `other` (after none) begin their time at `end`.
    fn begin_slots_after(&mut self, other: Option<&str>, end: Duration) {
        for (slot, one) in self.plan.slots.iter().enumerate() {
            if one.timing.start_after.as_deref() == other {
                let at = end.saturating_add(one.timing.start_time);
                self.courses[slot].begun = Some(at);
                // What lies beyond the clock's end never begins; and a pacer that is gone has been told to go.
                if let (Some(pacer), Some(at)) = (&self.pacer, self.start.checked_add(at)) {
                    let _ = pacer.send(Begin { slot, at });
                }
            }
        }
    }

    pub(super) fn stop_pacing(&mut self) {
        self.pacer = None;
    }

    pub(super) fn until_done(&mut self, inbox: &Receiver<Report>) {
        let mut next_take = self.start + INTERVAL;
        let mut cut_at: Option<Instant> = None;
        while self.courses.iter().any(|course| course.undone > 0) {
            if self.ended != Ended::Whole && cut_at.is_none() {
                cut_at = Some(clock::now());
                self.stop_pacing();
                for slot in 0..self.plan.slots.len() {
                    tell_all(self.commands, || Command::Do { slot, action: Action::CutAll });
                }
            }
            if !self.glance(inbox) || cut_at.is_some_and(|cut| clock::now() > cut + HANG_UP) {
                return;
            }
            let now = clock::now();
            // What is measured once all is done belongs to the closing interval.
            if self.has_begun && now >= next_take && self.courses.iter().any(|course| course.undone > 0) {
                tell_all(self.commands, || Command::Take);
                self.until_taken(inbox);
                self.emit(now);
                while next_take <= now {
                    next_take += INTERVAL;
                }
            }
        }
    }

    /// Takes in what comes next, if something does soon, and looks for a stop; whether anybody is left to tell.
    fn glance(&mut self, inbox: &Receiver<Report>) -> bool {
        match inbox.recv_timeout(GLANCE) {
            Ok(report) => self.take_in(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if self.ended == Ended::Whole && (self.stop)() {
            self.ended = Ended::Stopped;
        }
        true
    }

    /// Until every worker has handed its shard over. One that is busy does so later: in the next interval.
    fn until_taken(&mut self, inbox: &Receiver<Report>) {
        let until = clock::now() + HAND_OVER;
        let mut missing = self.plan.workers;
        while missing > 0 {
            let wait = until.saturating_duration_since(clock::now());
            let Ok(report) = inbox.recv_timeout(wait) else { return };
            missing -= usize::from(matches!(report, Report::Taken { .. }));
            self.take_in(report);
        }
    }

    pub(super) fn until_hung_up(&mut self, inbox: &Receiver<Report>) {
        let until = clock::now() + HANG_UP;
        while let Ok(report) = inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
            self.take_in(report);
        }
    }

    fn take_in(&mut self, report: Report) {
        match report {
            Report::Prepared => self.unprepared -= 1,
            Report::Added { slot, setup } => self.note_added(slot, setup),
            Report::Done { slot } => self.note_done(slot),
            Report::Failed { slot, message } => {
                let name = &self.plan.slots[slot].name;
                self.fail(format!("scenario `{name}`: the setup of a user failed: {message}"));
            }
            Report::Broken { message } => self.fail(message),
            Report::Fared(signs) => self.fared.push(*signs),
            Report::Taken { worker, stats } => {
                let slots = self.plan.slots.len();
                for (row, stats) in stats.into_iter().enumerate() {
                    self.gathered.users.insert((worker, row), stats.vus);
                    let peak = self.gathered.peaks.entry((worker, row)).or_default();
                    *peak = stats.vus_max.max(*peak);
                    let name = self.plan.slots[row % slots].name.clone();
                    let into = if row < slots { &mut self.gathered.load } else { &mut self.gathered.warm_up };
                    into.entry(name).or_default().merge(&stats);
                }
            }
        }
    }

    fn note_done(&mut self, slot: usize) {
        let course = &mut self.courses[slot];
        course.undone -= 1;
        if course.undone == 0 {
            let over = clock::now().saturating_duration_since(self.start);
            course.over = Some(over);
            if self.ended == Ended::Whole {
                self.begin_slots_after(Some(&self.plan.slots[slot].name), over);
            }
        }
    }

    fn note_added(&mut self, slot: usize, setup: Result<(), String>) {
        let (one, course) = (&self.plan.slots[slot], &mut self.courses[slot]);
        let warning = match setup {
            Ok(()) if !course.added => {
                course.added = true;
                let (first, most) = (one.load.vus_at_first(), one.load.vus_max());
                let message = format!(
                    "{}: all of the {first} users that were set up beforehand were at work when an iteration was \
                     due; up to {most} are added while the load goes on. Setting them up disturbs the measurement: \
                     give .pre_allocated_vus(…) as many as are needed.",
                    one.name
                );
                Warning::new("users-added", message)
            }
            Err(why) if !course.not_added => {
                course.not_added = true;
                let message = format!(
                    "{}: a user could not be added under load: {why}. After {FAILURES} failures in a row no further \
                     one is tried.",
                    one.name
                );
                Warning::new("user-not-added", message)
            }
            _ => return,
        };
        self.observer.warning(warning);
    }

    fn fail(&mut self, message: String) {
        if !matches!(self.ended, Ended::Failed(_)) {
            self.ended = Ended::Failed(message);
        }
    }

    /// Tells what was gathered last, and gives back how the phase ended, and how each worker thread fared.
    pub(super) fn end(mut self, end: Instant) -> (Ended, Vec<WorkerSigns>) {
        if self.has_begun {
            self.observer.over();
            self.emit(end);
        }
        (self.ended, self.fared)
    }

    /// Tells what was gathered, as the interval that ends at `end`.
    fn emit(&mut self, end: Instant) {
        let end = end.saturating_duration_since(self.start);
        let mut load = std::mem::take(&mut self.gathered.load);
        let mut warm_up = std::mem::take(&mut self.gathered.warm_up);
        let slots = self.plan.slots.len();
        for (at, slot) in self.plan.slots.iter().enumerate() {
            let of_slot = |map: &BTreeMap<(usize, usize), u32>| -> u32 {
                map.iter().filter(|((_, row), _)| row % slots == at).map(|(_, n)| *n).sum()
            };
            let (users, peak) = (of_slot(&self.gathered.users), of_slot(&self.gathered.peaks));
            let pool = self.pools[at].as_ref();
            for (is_warm_up, scenarios) in [(false, &mut load), (true, &mut warm_up)] {
                let stats = scenarios.entry(slot.name.clone()).or_default();
                for (cause, count) in pool.iter().flat_map(|pool| pool.take_dropped(is_warm_up)) {
                    stats.drop_arrivals(cause, count);
                }
            }
            let stats = load.entry(slot.name.clone()).or_default();
            stats.vus = users;
            // The workers' peaks need not fall on one instant; the pool's does.
            stats.vus_max = pool.map_or_else(|| peak.min(slot.load.vus_max()), |pool| pool.take_peak());
            stats.measured = self.measured(at, end);
        }
        self.gathered.peaks.clear();
        let (start_ms, end_ms) = (self.interval_start.as_millis() as u64, end.as_millis() as u64);
        if self.plan.slots.iter().any(|slot| !slot.timing.warm_up.is_zero()) {
            warm_up.retain(|_, stats| !stats.is_idle());
            if !warm_up.is_empty() {
                let phase = Phase::WarmUp;
                self.observer.interval(Interval { phase, start_ms, end_ms, scenarios: warm_up });
            }
        }
        self.observer.interval(Interval { phase: self.plan.phase, start_ms, end_ms, scenarios: load });
        self.interval_start = end;
    }

    /// The time for which the slot has been measured up to `end`.
    fn measured(&self, slot: usize, end: Duration) -> Option<Span> {
        let course = &self.courses[slot];
        let from = course.begun?.saturating_add(self.plan.slots[slot].timing.warm_up);
        Span::new(from, course.over.unwrap_or(end).min(end))
    }
}
