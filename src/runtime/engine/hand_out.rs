//! From the pacer to the worker threads: who does what has fallen due.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::pacer::{Begin, HandOut};
use super::phase::tell_all;
use super::pool::Pool;
use super::schedule::Action;
use super::worker::Command;
use crate::model::stats::DropCause;

/// Speaks to the worker threads of one phase.
pub(super) struct Workers {
    commands: Vec<UnboundedSender<Command>>,
    slots: Vec<SlotState>,
    /// Arrivals that are to be told, by worker.
    arrivals: Vec<Vec<(usize, Instant)>>,
    turn: usize,
    /// Hears of each slot when all of it has been told to be cut off.
    cuts: Sender<usize>,
}

/// What is known of one slot.
pub(super) struct SlotState {
    /// Of an open model.
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) warm_up: Duration,
    /// Until when its iterations belong to the warm-up.
    pub(super) warm_until: Option<Instant>,
}

impl SlotState {
    /// Whether what is due `at` belongs to the warm-up.
    fn is_warm_up(&self, at: Instant) -> bool {
        self.warm_until.is_some_and(|until| at < until)
    }
}

impl Workers {
    pub(super) fn new(
        commands: Vec<UnboundedSender<Command>>,
        slots: Vec<SlotState>,
        cuts: Sender<usize>,
    ) -> Self {
        let arrivals = commands.iter().map(|_| Vec::new()).collect();
        Self { commands, slots, arrivals, turn: 0, cuts }
    }

    fn drop_arrival(&self, slot: usize, at: Instant, cause: DropCause) {
        let state = &self.slots[slot];
        if let Some(pool) = &state.pool {
            pool.drop_arrival(cause, state.is_warm_up(at));
        }
    }
}

impl HandOut for Workers {
    fn begin(&mut self, Begin { slot, at }: Begin) {
        let state = &mut self.slots[slot];
        if !state.warm_up.is_zero() {
            let until = at + state.warm_up;
            state.warm_until = Some(until);
            tell_all(&self.commands, || Command::WarmUp { slot, until });
        }
    }

    fn arrive(&mut self, slot: usize, at: Instant) {
        let state = &self.slots[slot];
        let Some(pool) = &state.pool else { return };
        self.turn = self.turn.wrapping_add(1);
        if let Some(worker) = pool.claim(self.turn % self.commands.len(), state.is_warm_up(at)) {
            self.arrivals[worker].push((slot, at));
            return;
        }
        if let Some(vu) = pool.grow() {
            let place = vu as usize % self.commands.len();
            tell_all(&self.commands[place..=place], || Command::Add { slot, vu });
        }
        self.drop_arrival(slot, at, DropCause::Pool);
    }

    fn miss(&mut self, slot: usize, at: Instant) {
        self.drop_arrival(slot, at, DropCause::Generator);
    }

    fn act(&mut self, slot: usize, action: Action) {
        // Nobody is told the end before what falls due before it.
        self.flush();
        let command = || Command::Do { slot, action };
        match action {
            Action::Start { vu } | Action::Retire { vu, .. } | Action::Cut { vu, .. } => {
                let place = vu as usize % self.commands.len();
                tell_all(&self.commands[place..=place], command);
            }
            Action::RetireAll => tell_all(&self.commands, command),
            Action::CutAll => {
                tell_all(&self.commands, command);
                // Nobody listens once the phase is over.
                let _ = self.cuts.send(slot);
            }
            Action::Arrive => {}
        }
    }

    fn flush(&mut self) {
        for (worker, arrivals) in self.commands.iter().zip(&mut self.arrivals) {
            if !arrivals.is_empty() {
                // A worker that is gone has reported why.
                let _ = worker.send(Command::Arrive(std::mem::take(arrivals)));
            }
        }
    }
}
