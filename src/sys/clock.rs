//! Monotonic and wall clocks.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the clocks")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The CPU time that this thread has had, in nanoseconds; only Linux tells.
pub(crate) fn thread_cpu_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The wall clock, in nanoseconds since the Unix epoch (0 before it).
pub(crate) fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
