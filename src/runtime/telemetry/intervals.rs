//! The bounded queue on which the figures of the load reach the export thread. Metrics are cumulative, so none may be
//! lost: what finds the queue full waits and is handed on together with what comes next.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::model::stats::{Interval, Phase};

/// Intervals that may wait for the export thread one by one.
const QUEUE: usize = 64;

/// The near end of the queue.
#[derive(Debug)]
pub(crate) struct IntervalSink {
    queue: SyncSender<Interval>,
    /// All that found the queue full, as one.
    waiting: RefCell<Option<Interval>>,
}

impl IntervalSink {
    pub(crate) fn new() -> (Self, Receiver<Interval>) {
        let (queue, intervals) = sync_channel(QUEUE);
        (Self { queue, waiting: RefCell::new(None) }, intervals)
    }

    /// Hands an interval of the load on; never waits. Reference and warm-up are in no metric.
    pub(crate) fn push(&self, interval: &Interval) {
        if interval.phase != Phase::Load {
            return;
        }
        match &mut *self.waiting.borrow_mut() {
            Some(waiting) => waiting.extend(interval),
            waiting => *waiting = Some(interval.clone()),
        }
        self.flush();
    }

    /// Tries to hand on what waits; whether nothing waits any more.
    pub(crate) fn flush(&self) -> bool {
        let Some(interval) = self.waiting.take() else { return true };
        match self.queue.try_send(interval) {
            Ok(()) => true,
            Err(TrySendError::Full(interval) | TrySendError::Disconnected(interval)) => {
                self.waiting.replace(Some(interval));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::stats::ScenarioStats;

    fn interval(phase: Phase, nth: u64) -> Interval {
        let stats = ScenarioStats { iterations: 1, vus: nth as u32, ..ScenarioStats::default() };
        let scenarios = BTreeMap::from([("s".to_owned(), stats)]);
        Interval { phase, start_ms: nth * 1000, end_ms: (nth + 1) * 1000, scenarios }
    }

    #[test]
    fn what_finds_the_queue_full_is_handed_on_later_as_one() {
        let (sink, intervals) = IntervalSink::new();
        sink.push(&interval(Phase::Reference, 0));
        let all = QUEUE as u64 + 5;
        (0..all).for_each(|nth| sink.push(&interval(Phase::Load, nth)));
        assert!(!sink.flush());
        let mut taken: Vec<Interval> = intervals.try_iter().collect();
        assert_eq!(taken.len(), QUEUE);
        assert!(sink.flush() && sink.flush());
        taken.extend(intervals.try_iter());
        assert_eq!(taken.len(), QUEUE + 1);
        let late = &taken[QUEUE];
        assert_eq!((late.start_ms, late.end_ms), (QUEUE as u64 * 1000, all * 1000));
        assert_eq!((late.scenarios["s"].iterations, late.scenarios["s"].vus), (5, all as u32 - 1));
        assert_eq!(taken.iter().map(|interval| interval.scenarios["s"].iterations).sum::<u64>(), all);
    }

    #[test]
    fn without_a_far_end_it_goes_on_waiting() {
        let (sink, intervals) = IntervalSink::new();
        drop(intervals);
        sink.push(&interval(Phase::Load, 0));
        assert!(!sink.flush());
    }
}
