//! Signals that a process receives.

use std::io;

/// A wish that this process ends, from a person or from what started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndWish {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Takes the wishes that this process ends, in place of what they usually do. Needs a tokio runtime.
#[derive(Debug)]
pub(crate) struct EndWishes {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl EndWishes {
    pub(crate) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// The next wish; never returns once none can come. Cancel safe.
    pub(crate) async fn next(&mut self) -> EndWish {
        #[cfg(unix)]
        tokio::select! {
            Some(()) = self.interrupt.recv() => EndWish::Interrupt,
            Some(()) = self.terminate.recv() => EndWish::Terminate,
            else => std::future::pending().await,
        }
        #[cfg(not(unix))]
        match tokio::signal::ctrl_c().await {
            Ok(()) => EndWish::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// From now on, what usually interrupts a process (Ctrl-C, `kill`, a closed terminal) does not end this one.
///
/// Handlers rather than `SIG_IGN`, because programs started later would inherit the latter. Needs a tokio runtime.
#[cfg(feature = "cli")]
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
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) struct ChildEnds {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
}

#[cfg(feature = "cli")]
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
