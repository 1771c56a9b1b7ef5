//! What stops a command: a person, once with mercy, twice without.

use std::io;

use tokio::sync::watch;

use crate::model::verdict::Outcome;
use crate::sys::process;
use crate::sys::signal::{EndWish, EndWishes};

/// Listens for signals from the beginning of the command to its end.
#[derive(Debug)]
pub(super) struct Stopper {
    wished: watch::Receiver<Option<Outcome>>,
    /// Whether something was measured, so that the command ends by itself, with a report, when it is asked to.
    heeded: watch::Sender<bool>,
}

impl Stopper {
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = EndWishes::listen()?;
        let (teller, wished) = watch::channel(None);
        tokio::spawn(async move {
            for last in [false, true] {
                let outcome = match signals.next().await {
                    EndWish::Interrupt => Outcome::Interrupted,
                    EndWish::Terminate => Outcome::Terminated,
                };
                if last {
                    // Services end with their guard, scenario processes with their socket.
                    process::exit(outcome.code());
                }
                teller.send_replace(Some(outcome));
            }
        });
        Ok(Self { wished, heeded: watch::Sender::new(false) })
    }

    /// From now on the command heeds wishes itself: until then, a wish ends it at once. There is no way back, since what
    /// was measured once is to be reported.
    pub(super) fn heeded(&self) {
        self.heeded.send_replace(true);
    }

    /// Whether the command heeds wishes itself.
    pub(super) fn is_heeded(&self) -> bool {
        *self.heeded.borrow()
    }

    /// What was wished, once it is. Cancel safe.
    pub(super) async fn wished(&self) -> Outcome {
        let mut wished = self.wished.clone();
        loop {
            if let Some(outcome) = *wished.borrow_and_update() {
                return outcome;
            }
            if wished.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What was wished so far.
    pub(super) fn wish(&self) -> Option<Outcome> {
        *self.wished.borrow()
    }

    /// Returns when the command is to be dropped where it stands.
    pub(super) async fn abandoned(&self) -> Outcome {
        let outcome = self.wished().await;
        let mut heeded = self.heeded.subscribe();
        // The sender is in `self`.
        let _ = heeded.wait_for(|heeded| !heeded).await;
        outcome
    }
}
