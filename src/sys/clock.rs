//! Monotonic and wall clocks.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the clocks")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What a thread has had of the CPUs since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) cpu: Duration,
    /// It could have run, and had no CPU.
    pub(crate) waited: Duration,
}

/// Those of this thread; only Linux tells.
pub(crate) fn thread_times() -> Option<ThreadTimes> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    Some(ThreadTimes { cpu: fields.next()??, waited: fields.next()?? })
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
