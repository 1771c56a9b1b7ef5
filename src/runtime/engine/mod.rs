//! Drives users: when each starts and stops, on which thread, and when the phase is over. It knows neither
//! OpenTelemetry nor terminals.

mod effort;
mod gathered;
mod hand_out;
mod life;
mod pacer;
mod phase;
mod pool;
mod pulse;
pub(crate) mod schedule;
mod watch;
mod worker;

pub(crate) use phase::{Closed, Ended, Observer, PhasePlan, Slot, StopFlag, run};

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::LocalBoxFuture;

use crate::runtime::record::{Recording, Shard};

/// One user of a scenario, made and driven on one worker thread.
pub(crate) trait User {
    /// Once, before the first iteration; the error is why the phase cannot run.
    fn prepare(&mut self) -> LocalBoxFuture<'_, Result<(), String>>;
    /// One iteration, which records itself; dropped before its end, it records that it was interrupted.
    fn iterate(&mut self, start: Start) -> LocalBoxFuture<'_, ()>;
}

/// How an iteration comes about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// The scenario's place in the shard, which is another one in the warm-up.
    pub(crate) row: usize,
    pub(crate) is_warm_up: bool,
    /// In an open model, when it was due.
    pub(crate) scheduled: Option<Instant>,
}

/// The users of one scenario.
pub(crate) trait Users: Send + Sync {
    /// Takes a seat on a worker thread, once for each.
    fn seat(self: Arc<Self>, seat: Seat) -> Box<dyn Seated>;
    /// How their samples are recorded.
    fn recording(&self) -> Arc<Recording>;
}

/// The users of one scenario on one worker thread.
pub(crate) trait Seated {
    /// User number `id`, from 1.
    fn make(&self, id: u64) -> Box<dyn User>;
}

/// What a worker thread offers to the users of one scenario on it.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// The scenario's place among those of the phase.
    pub(crate) slot: usize,
    pub(crate) shard: Rc<RefCell<Shard>>,
    /// How many threads share the load.
    pub(crate) workers: usize,
}
