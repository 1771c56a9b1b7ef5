//! The timeouts of one user's requests.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Longer than any run; later than this no clock can tell.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// A timer that requests use one after the other. To move its deadline onwards costs next to nothing, where a new one
/// for each request takes a lock twice and, mostly, wakes the thread by a system call.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    spare: RefCell<Option<Pin<Box<Sleep>>>>,
}

impl Timer {
    /// Does `work`; `None` when it is not done after `at_most`.
    pub(super) async fn within<F: Future>(
        &self,
        at_most: Duration,
        mut work: Pin<&mut F>,
    ) -> Option<F::Output> {
        let deadline = Instant::now() + at_most.min(FOREVER);
        let mut timer = match self.spare.take() {
            Some(mut timer) => {
                timer.as_mut().reset(deadline);
                timer
            }
            None => Box::pin(sleep_until(deadline)),
        };
        let ended = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
        })
        .await;
        self.spare.replace(Some(timer));
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_work_has_its_own_deadline_whatever_the_one_before_had() {
        let timer = Timer::default();
        for millis in [50, 20, 70, 70] {
            let before = Instant::now();
            let at_most = Duration::from_millis(millis);
            assert_eq!(timer.within(at_most, pin!(pending::<()>())).await, None);
            assert_eq!(before.elapsed().as_millis(), millis.into());
            assert_eq!(timer.within(at_most, pin!(async { 1 })).await, Some(1));
            let shorter = sleep(Duration::from_millis(millis - 5));
            assert_eq!(timer.within(at_most, pin!(shorter)).await, Some(()));
        }
        let (minute, never) = (pin!(sleep(Duration::from_secs(60))), pin!(pending::<()>()));
        let (one, other) =
            tokio::join!(timer.within(Duration::MAX, minute), timer.within(Duration::from_secs(1), never),);
        assert_eq!((one, other), (Some(()), None));
    }
}
