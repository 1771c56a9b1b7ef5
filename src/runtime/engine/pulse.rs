//! A worker's pulse: how late its loop is to look at what is due. What makes a timer late makes responses look slow.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::model::latency::Latency;
use crate::sys::clock;

/// How often the loop is looked at.
const BEAT: Duration = Duration::from_millis(100);

/// Records the lateness of a timer, ten times a second, until it is dropped.
pub(super) async fn feel(lag: &RefCell<Latency>) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let due = beats.tick().await.into_std();
        lag.borrow_mut().record(clock::now().saturating_duration_since(due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_is_kept_busy_is_late_by_as_much() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let lag = RefCell::new(Latency::default());
        let busy = async {
            tokio::time::sleep(BEAT / 2).await;
            let until = clock::now() + 3 * BEAT;
            while clock::now() < until {}
            // Whoever was due meanwhile has its turn now.
            tokio::time::sleep(BEAT).await;
        };
        runtime.block_on(async {
            tokio::select! {
                () = feel(&lag) => {}
                () = busy => {}
            }
        });
        // Due after one beat, and looked at after three and a half.
        let most = Duration::from_nanos(lag.borrow().max_nanos().unwrap());
        assert!(most >= 2 * BEAT, "{most:?}");
    }
}
