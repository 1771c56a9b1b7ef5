//! Watches over a phase: until all users are set up, until all is done, and what was measured each second meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::gathered::Gathered;
use super::pacer::Begin;
use super::phase::{Closed, Ended, Observer, Pacing, PhasePlan, pace, tell_all};
use super::pool::{FAILURES, Pool};
use super::schedule::Action;
use super::worker::{Command, Report};
use crate::model::event::Warning;
use crate::model::health::WorkerSigns;
use crate::model::stats::{Interval, Phase, Span};
use crate::sys::clock;

/// How often the workers' shards are taken.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take once all is cut off, before it is left behind: only code that blocks its thread takes long.
const LEAVE_BEHIND: Duration = Duration::from_secs(5);
/// The same where the run is to stop: whoever wants that waits for it.
const LEAVE_BEHIND_WHEN_STOPPED: Duration = Duration::from_millis(1500);
/// How long a worker may take to hand its shard over.
const HAND_OVER: Duration = Duration::from_millis(100);
/// How often a stop from outside is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// How far a slot is.
#[derive(Debug, Clone)]
struct Course {
    /// Worker threads whose users of it have something left to do.
    undone: BTreeSet<usize>,
    /// On the phase's time.
    begun: Option<Duration>,
    over: Option<Duration>,
    /// When all that was left of it was cut off.
    cut: Option<Instant>,
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
    pacing: Option<Pacing>,
    has_begun: bool,
    is_measuring: bool,
    interval_start: Duration,
    gathered: Gathered,
    /// Users whose setup is not done.
    unprepared: u64,
    /// By slot.
    courses: Vec<Course>,
    /// Worker threads that were not waited for any longer.
    left: BTreeSet<usize>,
    /// How those fared that have hung up.
    fared: BTreeMap<usize, WorkerSigns>,
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
        let undone = (0..plan.workers).collect();
        let course = Course { undone, begun: None, over: None, cut: None, added: false, not_added: false };
        Self {
            plan,
            commands,
            pools,
            stop,
            observer,
            start: clock::now(),
            pacing: None,
            has_begun: false,
            is_measuring: false,
            interval_start: Duration::ZERO,
            gathered: Gathered::new(plan.slots.len()),
            unprepared: plan.slots.iter().map(|slot| u64::from(slot.load.vus_at_first())).sum(),
            courses: vec![course; plan.slots.len()],
            left: BTreeSet::new(),
            fared: BTreeMap::new(),
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
            Ok(pacing) => self.pacing = Some(pacing),
            Err(message) => return self.fail(message),
        }
        self.has_begun = true;
        self.observer.started();
        self.start = clock::now();
        self.begin_slots_after(None, Duration::ZERO);
        self.look_for_measuring(self.start);
    }

    /// From when on the first slot is measured, it counts how the workers fare.
    fn look_for_measuring(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.start);
        let has_begun =
            (0..self.courses.len()).any(|slot| self.measured_from(slot).is_some_and(|at| at <= passed));
        if has_begun && !self.is_measuring {
            self.is_measuring = true;
            tell_all(self.commands, || Command::Measure);
            self.observer.measuring();
        }
    }

    /// Those that start after `other` (after none) begin their time at `end`.
    fn begin_slots_after(&mut self, other: Option<&str>, end: Duration) {
        for (slot, one) in self.plan.slots.iter().enumerate() {
            if one.timing.start_after.as_deref() == other {
                let at = end.saturating_add(one.timing.start_time);
                self.courses[slot].begun = Some(at);
                // What lies beyond the clock's end never begins; and a pacer that is gone has been told to go.
                if let (Some(pacing), Some(at)) = (&self.pacing, self.start.checked_add(at)) {
                    let _ = pacing.begin.send(Begin { slot, at });
                }
            }
        }
    }

    pub(super) fn until_done(&mut self, inbox: &Receiver<Report>) {
        let mut next_take = self.start + INTERVAL;
        while self.is_under_way() && self.glance(inbox) {
            let now = clock::now();
            if self.ended != Ended::Whole {
                self.cut_all(now);
            }
            self.leave_behind(now);
            self.look_for_measuring(now);
            // What is measured once all is done belongs to the closing interval.
            if self.has_begun && now >= next_take && self.is_under_way() {
                tell_all(self.commands, || Command::Take);
                self.until_taken(inbox);
                self.emit(now);
                while next_take <= now {
                    next_take += INTERVAL;
                }
            }
        }
    }

    fn is_under_way(&self) -> bool {
        self.courses.iter().any(|course| !course.undone.is_empty())
    }

    /// Cuts off what has not been yet.
    fn cut_all(&mut self, now: Instant) {
        self.pacing = None;
        for (slot, course) in self.courses.iter_mut().enumerate().filter(|(_, course)| course.cut.is_none()) {
            course.cut = Some(now);
            tell_all(self.commands, || Command::Do { slot, action: Action::CutAll });
        }
    }

    /// Waits no longer for workers that have not ended what was cut off long ago.
    fn leave_behind(&mut self, now: Instant) {
        if let Some(pacing) = &self.pacing {
            pacing.cuts.try_iter().for_each(|slot| self.courses[slot].cut = Some(now));
        }
        let patience = self.patience();
        for slot in 0..self.courses.len() {
            let course = &mut self.courses[slot];
            if let Some(cut) = course.cut.filter(|cut| !course.undone.is_empty() && now > *cut + patience) {
                self.left.append(&mut course.undone);
                self.note_over(slot, cut, now);
            }
        }
    }

    fn patience(&self) -> Duration {
        if self.ended == Ended::Whole { LEAVE_BEHIND } else { LEAVE_BEHIND_WHEN_STOPPED }
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
        let mut missing: BTreeSet<usize> = (0..self.plan.workers).collect();
        while !missing.is_empty() {
            let wait = until.saturating_duration_since(clock::now());
            let Ok(report) = inbox.recv_timeout(wait) else { return };
            if let Report::Taken { worker, .. } = &report {
                missing.remove(worker);
            }
            self.take_in(report);
        }
    }

    /// Until every worker has said its last word. Those that were left behind have had their time.
    fn until_hung_up(&mut self, inbox: &Receiver<Report>) {
        let now = clock::now();
        loop {
            let missing: BTreeSet<usize> =
                (0..self.plan.workers).filter(|worker| !self.fared.contains_key(worker)).collect();
            if missing.is_empty() {
                return;
            }
            let wait = if missing.is_subset(&self.left) { HAND_OVER } else { self.patience() };
            let Ok(report) = inbox.recv_timeout((now + wait).saturating_duration_since(clock::now())) else {
                return;
            };
            self.take_in(report);
        }
    }

    fn take_in(&mut self, report: Report) {
        match report {
            Report::Prepared => self.unprepared -= 1,
            Report::Added { slot, setup } => self.note_added(slot, setup),
            Report::Done { worker, slot } => self.note_done(worker, slot),
            Report::Failed { slot, message } => {
                let name = &self.plan.slots[slot].name;
                self.fail(format!("scenario `{name}`: the setup of a user failed: {message}"));
            }
            Report::Broken { message } => self.fail(message),
            Report::Taken { worker, stats } => self.gathered.add(worker, &stats),
            Report::HungUp { worker, stats, signs } => {
                self.gathered.add(worker, &stats);
                self.fared.insert(worker, *signs);
            }
        }
    }

    fn note_done(&mut self, worker: usize, slot: usize) {
        let undone = &mut self.courses[slot].undone;
        // One that was left behind is none any more.
        if undone.remove(&worker) && undone.is_empty() {
            let now = clock::now();
            self.note_over(slot, now, now);
        }
    }

    /// All of the slot ended at `end`; what comes after it may begin `now`.
    fn note_over(&mut self, slot: usize, end: Instant, now: Instant) {
        self.courses[slot].over = Some(end.saturating_duration_since(self.start));
        if self.ended == Ended::Whole {
            let now = now.saturating_duration_since(self.start);
            self.begin_slots_after(Some(&self.plan.slots[slot].name), now);
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

    /// Ends the workers, tells what was gathered last, and gives back how it all went.
    pub(super) fn end(mut self, inbox: &Receiver<Report>) -> Closed {
        let end = clock::now();
        self.pacing = None;
        tell_all(self.commands, || Command::Exit);
        self.until_hung_up(inbox);
        let hung_up = self.fared.len();
        if self.has_begun {
            self.observer.over();
            self.emit(end);
        }
        Closed {
            ended: self.ended,
            workers: self.fared.into_values().collect(),
            // Before it began there was nothing to hand over.
            blocked: if self.has_begun { self.plan.workers - hung_up } else { 0 },
        }
    }

    /// Tells what was gathered, as the interval that ends at `end`.
    fn emit(&mut self, end: Instant) {
        let end = end.saturating_duration_since(self.start);
        let (mut load, mut warm_up) = (BTreeMap::new(), BTreeMap::new());
        for (at, slot) in self.plan.slots.iter().enumerate() {
            let pool = self.pools[at].as_ref();
            let [mut stats, mut warming] = self.gathered.take(at);
            for (is_warm_up, stats) in [(false, &mut stats), (true, &mut warming)] {
                for (cause, count) in pool.iter().flat_map(|pool| pool.take_dropped(is_warm_up)) {
                    stats.drop_arrivals(cause, count);
                }
            }
            stats.measured = self.measured(at, end);
            let is_measured = stats.measured.is_some();
            // The workers' peaks need not fall on one instant; the pool's does.
            let peak = pool.map(|pool| pool.take_peak(is_measured));
            let peak = peak.unwrap_or_else(|| stats.vus_max.max(stats.vus).min(slot.load.vus_max()));
            stats.vus_max = if is_measured { peak } else { 0 };
            load.insert(slot.name.clone(), stats);
            if !slot.timing.warm_up.is_zero() && !warming.is_idle() {
                warm_up.insert(slot.name.clone(), warming);
            }
        }
        let (start_ms, end_ms) = (self.interval_start.as_millis() as u64, end.as_millis() as u64);
        if !warm_up.is_empty() {
            self.observer.interval(Interval { phase: Phase::WarmUp, start_ms, end_ms, scenarios: warm_up });
        }
        self.observer.interval(Interval { phase: self.plan.phase, start_ms, end_ms, scenarios: load });
        self.interval_start = end;
    }

    /// From when on the slot is measured, as far as that is known.
    fn measured_from(&self, slot: usize) -> Option<Duration> {
        Some(self.courses[slot].begun?.saturating_add(self.plan.slots[slot].timing.warm_up))
    }

    /// The time for which the slot has been measured up to `end`.
    fn measured(&self, slot: usize, end: Duration) -> Option<Span> {
        Span::new(self.measured_from(slot)?, self.courses[slot].over.unwrap_or(end).min(end))
    }
}
