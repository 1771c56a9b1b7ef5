//! What a scenario process saw of itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::latency::Latency;

/// What a scenario process saw of itself during the load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Signs {
    pub(crate) workers: Vec<WorkerSigns>,
    /// Worker threads that did not hand over what they had measured: the scenario's code had not given them back.
    pub(crate) blocked_workers: usize,
    /// `None` without a control group that limits CPU time.
    pub(crate) throttling: Option<Throttling>,
    /// The largest step of the wall clock against the monotonic one, forwards (or a suspend) positive, in nanoseconds.
    pub(crate) clock_step_ns: i64,
    /// The longest time for which the process did not run, and was not seen to wait for a CPU: where the OS does not tell of
    /// such waits, they are in this.
    pub(crate) stopped: Duration,
    /// The longest time for which a thread that was due waited for a CPU.
    pub(crate) starved: Duration,
}

/// A thread that has more of a CPU than this in a second could hardly have done more in it.
pub(crate) const SATURATED: f64 = 0.95;

/// What was seen of one worker thread of the load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WorkerSigns {
    /// When it had most CPU time; `None` where the OS does not tell.
    pub(crate) busiest: Option<Busy>,
    /// The part of the measured time that is in seconds with more of a CPU than [`SATURATED`], 0 to 1.
    pub(crate) saturated: f64,
    /// How late its loop was to look at a timer, ten times a second.
    pub(crate) lag: Latency,
}

/// How busy a thread was in about a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Busy {
    /// The part of the time that it had a CPU, 0 to 1.
    pub(crate) cpu: f64,
    /// When that second began, in the measured time.
    pub(crate) from: Duration,
    pub(crate) length: Duration,
}

/// How often, and for how long in all, a control group was kept from running because it had used up its quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Throttled {
    pub(crate) periods: u64,
    pub(crate) time: Duration,
}

impl Throttled {
    /// What was added since `before`, so long ago.
    pub(crate) fn since(self, before: Self, within: Duration) -> Throttling {
        Throttling {
            periods: self.periods.saturating_sub(before.periods),
            time: self.time.saturating_sub(before.time),
            within,
        }
    }
}

/// How often, and for how long in all, that was in the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Throttling {
    pub(crate) periods: u64,
    pub(crate) time: Duration,
    /// The time in which it was counted.
    pub(crate) within: Duration,
}
