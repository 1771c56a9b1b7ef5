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
    /// Whether a run is going on, which ends by itself when it is asked to.
    graceful: watch::Sender<bool>,
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
        Ok(Self { wished, graceful: watch::Sender::new(false) })
    }

    /// Says whether a run is going on that ends by itself: until then, a wish ends the command at once.
    pub(super) fn set_graceful(&self, graceful: bool) {
        self.graceful.send_replace(graceful);
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
        let mut graceful = self.graceful.subscribe();
        // The sender is in `self`.
        let _ = graceful.wait_for(|graceful| !graceful).await;
        outcome
    }
}
