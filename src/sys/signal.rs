//! Signals that a process receives.

use std::io;

/// From now on, what usually interrupts a process (Ctrl-C, `kill`, a closed terminal) does not end this one.
///
/// Handlers rather than `SIG_IGN`, because programs started later would inherit the latter. Needs a tokio runtime.
pub(crate) fn outlive_interrupts() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()]
        {
            // tokio never gives the default action back, so the stream itself need not be kept.
            drop(signal(kind)?);
        }
    }
    #[cfg(windows)]
    {
        drop(tokio::signal::windows::ctrl_c()?);
        drop(tokio::signal::windows::ctrl_break()?);
    }
    Ok(())
}

/// Tells when children may have ended.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
}

impl ChildEnds {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signals: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())?,
        })
    }

    /// Returns when it is time to look at the children. Cancel safe.
    pub(crate) async fn recv(&mut self) {
        #[cfg(unix)]
        self.signals.recv().await;
        #[cfg(not(unix))]
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
