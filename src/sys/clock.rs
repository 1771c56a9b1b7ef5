//! Monotonic and wall clocks.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the clocks")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The CPU time that this thread has had, in nanoseconds; only Linux tells.
pub(crate) fn thread_cpu_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Both clocks at one instant: a reading that the thread lost its CPU in is repeated, a few times.
pub(crate) fn both() -> (Instant, u64) {
    let mut best: Option<(Duration, Instant, u64)> = None;
    for _ in 0..8 {
        let before = now();
        let unix_ns = unix_nanos();
        let took = now().saturating_duration_since(before);
        if best.is_none_or(|(shortest, ..)| took < shortest) {
            best = Some((took, before, unix_ns));
        }
        if took < Duration::from_millis(1) {
            break;
        }
    }
    best.map_or_else(|| (now(), unix_nanos()), |(_, monotonic, unix_ns)| (monotonic, unix_ns))
}

/// The wall clock, in nanoseconds since the Unix epoch (0 before it).
pub(crate) fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
