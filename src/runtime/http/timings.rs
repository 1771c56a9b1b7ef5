//! Where the time of one response went.

use std::time::Duration;

use crate::model::phases::{HttpPhase, PhaseTimes};

/// How long each phase of a request took, as its author sees it; of the last hop, where redirects were followed. The phases
/// follow each other, and together they are the [`total`](Self::total). Those before `sending` are zero on a connection that
/// was kept.
///
/// ```
/// # use loadtest::prelude::*;
/// async fn first_byte(vu: &Vu) -> Result {
///     let page = vu.get("/").send().await?;
///     vu.check("answers within 200 ms", page.timings().waiting() < millis(200));
///     Ok(())
/// }
/// # let _ = scenario("first-byte", first_byte);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    phases: PhaseTimes,
    total: Duration,
}

impl Timings {
    pub(super) fn new(phases: PhaseTimes, total: Duration) -> Self {
        Self { phases, total }
    }

    /// From `send` to the last byte of the body: what `http_req_total` measures.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// From the request's first byte to the last of the body: what `http_req_duration` measures.
    pub fn duration(&self) -> Duration {
        self.phases.duration()
    }

    /// Waiting for a connection that has room.
    pub fn blocked(&self) -> Duration {
        self.phases.get(HttpPhase::Blocked)
    }

    /// Looking the host's addresses up.
    pub fn dns(&self) -> Duration {
        self.phases.get(HttpPhase::Dns)
    }

    /// Connecting.
    pub fn connecting(&self) -> Duration {
        self.phases.get(HttpPhase::Connecting)
    }

    /// The TLS handshake.
    pub fn tls(&self) -> Duration {
        self.phases.get(HttpPhase::Tls)
    }

    /// From the request's first byte to its last.
    pub fn sending(&self) -> Duration {
        self.phases.get(HttpPhase::Sending)
    }

    /// From there to the response's first byte.
    pub fn waiting(&self) -> Duration {
        self.phases.get(HttpPhase::Waiting)
    }

    /// From there to its last byte.
    pub fn receiving(&self) -> Duration {
        self.phases.get(HttpPhase::Receiving)
    }
}
