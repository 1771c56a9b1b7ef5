//! How far a request has come, and when: what its phases are computed from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::wire::Marks;
use crate::model::phases::{HttpPhase, PhaseTimes};
use crate::sys::clock;

/// When the request was given to the connection that it is on.
#[derive(Debug, Clone, Copy, Default)]
enum Handed {
    /// It has none yet, or none any more.
    #[default]
    NotYet,
    /// When it began: the connection was there and had room.
    AtOnce,
    At(Instant),
}

/// How far one request has come. The clock is read at the ends of phases that happen, and for those alone.
#[derive(Debug, Default)]
pub(in crate::runtime::http) struct Progress {
    dns: Duration,
    connecting: Duration,
    tls: Duration,
    handed: Handed,
    sent: Option<Instant>,
    answered: Option<Instant>,
    /// What its connection notes of it, while it is under way there.
    marks: Option<Arc<Marks>>,
    retries: u32,
}

impl Progress {
    /// The request has a connection that was kept, and no time has passed but for attempts before.
    pub(super) fn hand_at_once(&mut self) {
        self.handed = if self.retries == 0 { Handed::AtOnce } else { Handed::At(clock::now()) };
    }

    /// The request was given to its connection at `at`.
    pub(super) fn hand(&mut self, at: Instant) {
        self.handed = Handed::At(at);
    }

    /// Adds to the phases before the request is sent, over all attempts.
    pub(super) fn connected(&mut self, dns: Duration, connecting: Duration, tls: Duration) {
        self.dns += dns;
        self.connecting += connecting;
        self.tls += tls;
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
        self.handed = Handed::NotYet;
        (self.sent, self.answered, self.marks) = (None, None, None);
    }

    /// Whether the request was given to a connection, this time or before.
    pub(in crate::runtime::http) fn was_handed(&self) -> bool {
        self.retries > 0 || !matches!(self.handed, Handed::NotYet)
    }

    /// How often the request was sent again.
    pub(in crate::runtime::http) fn retries(&self) -> u32 {
        self.retries
    }

    /// The phases of a request that began at `began` and ended at `ended`. They add up to the time between.
    pub(in crate::runtime::http) fn phases(&self, began: Instant, ended: Instant) -> PhaseTimes {
        let handed = match self.handed {
            Handed::AtOnce => began,
            Handed::At(at) => at.clamp(began, ended),
            Handed::NotYet => ended,
        };
        // Where one was not seen, the one after it stands for it.
        let marks = self.marks.as_ref();
        let answered = self.answered.or_else(|| marks?.answered()).unwrap_or(ended).clamp(handed, ended);
        let sent = self.sent.or_else(|| marks?.sent()).unwrap_or(answered).clamp(handed, answered);
        let mut times = PhaseTimes::default();
        // What is left of the time before the request had its connection.
        let mut left = handed.saturating_duration_since(began);
        for (phase, time) in
            [(HttpPhase::Dns, self.dns), (HttpPhase::Connecting, self.connecting), (HttpPhase::Tls, self.tls)]
        {
            // Cut off while it connects, it has no such phase yet.
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
            progress.connected(ms(millis[0]), ms(millis[1]), ms(millis[2]));
            if order > 0 {
                progress.hand(at(millis[..4].iter().sum()));
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
