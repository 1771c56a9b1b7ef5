//! The pacer: a thread of its own that hands out what falls due, by absolute offsets from the phase's start. An OS timer is ten
//! times as punctual as a runtime's.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::schedule::Due;
use crate::sys::clock;

/// Calls `fire` for each entry of `due` at `start` plus its offset, in order, until all are fired or the other
/// end of `stop` is gone.
pub(super) fn run<T: Copy>(
    start: Instant,
    due: &[(T, Due)],
    stop: &Receiver<()>,
    mut fire: impl FnMut(T, Due),
) {
    for (slot, due) in due {
        let wait = (start + due.at).saturating_duration_since(clock::now());
        if wait > Duration::ZERO {
            match stop.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        fire(*slot, *due);
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Action;
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn nothing_fires_early_and_all_fire_in_order() {
        let start = clock::now();
        let due: Vec<(usize, Due)> = (0..20)
            .map(|n| (0, Due { at: Duration::from_millis(n), action: Action::Start { vu: n as u32 } }))
            .collect();
        let (_keep, stop) = channel();
        let mut fired = Vec::new();
        run(start, &due, &stop, |_, due| {
            assert!(clock::now() >= start + due.at);
            fired.push(due);
        });
        assert_eq!(fired, due.iter().map(|(_, due)| *due).collect::<Vec<_>>());
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let due = [(0, Due { at: Duration::from_secs(3600), action: Action::CutAll })];
        let (keep, stop) = channel::<()>();
        drop(keep);
        run(clock::now(), &due, &stop, |_, _| panic!("it was stopped"));
        assert!(stop.try_recv().is_err());
    }
}
