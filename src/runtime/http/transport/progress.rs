//! How far a request has come, and when: what its phases are computed from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::wire::Marks;
use crate::model::phases::{HttpPhase, PhaseTimes};
use crate::sys::clock;

/// Where a request is.
#[derive(Debug, Clone, Copy, Default)]
enum Stage {
    /// It has no connection yet, or none any more, and nothing is done about it.
    #[default]
    Blocked,
    /// A connection is made for it, and has been in this phase since then.
    Connecting(HttpPhase, Instant),
    /// It was given to its connection when it began: that was there and had room.
    HandedAtOnce,
    /// It was given to its connection then.
    Handed(Instant),
}

/// The phases of making a connection.
const OF_CONNECTING: [HttpPhase; 3] = [HttpPhase::Dns, HttpPhase::Connecting, HttpPhase::Tls];

/// How far one request has come. The clock is read at the ends of phases that happen, and for those alone.
#[derive(Debug, Default)]
pub(in crate::runtime::http) struct Progress {
    stage: Stage,
    /// What the phases of making a connection took, as far as they are over, in all attempts.
    connecting: [Duration; OF_CONNECTING.len()],
    sent: Option<Instant>,
    answered: Option<Instant>,
    /// What its connection notes of it, while it is under way there.
    marks: Option<Arc<Marks>>,
    retries: u32,
}

impl Progress {
    /// Making a connection comes to this phase. What is left of it by an error or for want of time ended there.
    pub(super) fn enter(&mut self, phase: HttpPhase) {
        let now = clock::now();
        self.leave(now);
        self.stage = Stage::Connecting(phase, now);
    }

    fn leave(&mut self, at: Instant) {
        self.connecting = self.connecting_until(at);
    }

    /// What making connections took up to then.
    fn connecting_until(&self, at: Instant) -> [Duration; OF_CONNECTING.len()] {
        let mut times = self.connecting;
        if let Stage::Connecting(current, since) = self.stage {
            for (time, _) in times.iter_mut().zip(OF_CONNECTING).filter(|(_, phase)| *phase == current) {
                *time += at.saturating_duration_since(since);
            }
        }
        times
    }

    /// The request has a connection that was kept, and no time has passed but for attempts before.
    pub(super) fn hand_at_once(&mut self) {
        self.stage = if self.retries == 0 { Stage::HandedAtOnce } else { Stage::Handed(clock::now()) };
    }

    /// The request is given to its connection.
    pub(super) fn hand(&mut self) {
        let now = clock::now();
        self.leave(now);
        self.stage = Stage::Handed(now);
    }

    /// There is no room on its connection: it waits to be given to it.
    pub(super) fn block(&mut self) {
        self.stage = Stage::Blocked;
    }

    /// The request goes onto a connection that notes in `marks` how far it is.
    pub(super) fn watch(&mut self, marks: Arc<Marks>) {
        self.marks = Some(marks);
    }

    /// The whole request was handed over, and nothing of an answer is there yet.
    pub(super) fn sent(&mut self, at: Instant) {
        self.sent = Some(at);
    }

    /// The whole request was handed over at `sent`, and the answer began at `answered`.
    pub(super) fn answer(&mut self, sent: Option<Instant>, answered: Option<Instant>) {
        self.sent = sent;
        self.answered = answered;
        self.marks = None;
    }

    /// What was sent has to be sent again, on another connection.
    pub(super) fn retry(&mut self) {
        self.retries += 1;
        self.stage = Stage::Blocked;
        (self.sent, self.answered, self.marks) = (None, None, None);
    }

    /// Whether the request was given to a connection, this time or before.
    pub(in crate::runtime::http) fn was_handed(&self) -> bool {
        self.retries > 0 || matches!(self.stage, Stage::HandedAtOnce | Stage::Handed(_))
    }

    /// How often the request was sent again.
    pub(in crate::runtime::http) fn retries(&self) -> u32 {
        self.retries
    }

    /// The phases of a request that began at `began` and ended at `ended`. They add up to the time between.
    pub(in crate::runtime::http) fn phases(&self, began: Instant, ended: Instant) -> PhaseTimes {
        let handed = match self.stage {
            Stage::HandedAtOnce => began,
            Stage::Handed(at) => at.clamp(began, ended),
            Stage::Blocked | Stage::Connecting(..) => ended,
        };
        let marks = self.marks.as_ref();
        let answered = self.answered.or_else(|| marks?.answered());
        let sent = self.sent.or_else(|| marks?.sent());
        let mut times = PhaseTimes::default();
        times.last = match (self.stage, sent, answered) {
            (Stage::Blocked, ..) => HttpPhase::Blocked,
            (Stage::Connecting(phase, _), ..) => phase,
            (_, _, Some(_)) => HttpPhase::Receiving,
            (_, Some(_), None) => HttpPhase::Waiting,
            (_, None, None) => HttpPhase::Sending,
        };
        // Where one was not seen, the one after it stands for it.
        let answered = answered.unwrap_or(ended).clamp(handed, ended);
        let sent = sent.unwrap_or(answered).clamp(handed, answered);
        // What is left of the time before the request had its connection.
        let mut left = handed.saturating_duration_since(began);
        for (phase, time) in OF_CONNECTING.into_iter().zip(self.connecting_until(ended)) {
            times.set(phase, time.min(left));
            left = left.saturating_sub(time);
        }
        times.set(HttpPhase::Blocked, left);
        times.set(HttpPhase::Sending, sent.saturating_duration_since(handed));
        times.set(HttpPhase::Waiting, answered.saturating_duration_since(sent));
        times.set(HttpPhase::Receiving, ended.saturating_duration_since(answered));
        times
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_phases_are_the_whole_time_whatever_was_seen_of_it(
            millis in proptest::collection::vec(0_u64..100, 7), order in 0_u8..4, cut in 0_u64..400
        ) {
            let began = clock::now();
            let at = |n: u64| began + Duration::from_millis(n);
            let ms = Duration::from_millis;
            let mut progress = Progress::default();
            progress.connecting = [ms(millis[0]), ms(millis[1]), ms(millis[2])];
            if order > 0 {
                progress.stage = Stage::Handed(at(millis[..4].iter().sum()));
            }
            if order > 1 {
                let sent = millis[..5].iter().sum();
                progress.answer((order > 2).then(|| at(sent)), Some(at(sent + millis[5])));
            }
            let times = progress.phases(began, at(cut));
            let sum: Duration = HttpPhase::ALL.iter().map(|phase| times.get(*phase)).sum();
            prop_assert_eq!(sum, ms(cut));
            if order > 2 && cut >= millis.iter().sum() {
                prop_assert_eq!(times.get(HttpPhase::Blocked), ms(millis[3]));
                prop_assert_eq!(times.get(HttpPhase::Sending), ms(millis[4]));
                prop_assert_eq!(times.get(HttpPhase::Waiting), ms(millis[5]));
            }
        }
    }
}
