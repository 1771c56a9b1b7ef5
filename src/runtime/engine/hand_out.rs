//! From the pacer to the worker threads: who does what has fallen due.

use std::sync::Arc;
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
}

/// What is known of one slot.
pub(super) struct SlotState {
    /// Of an open model.
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) warm_up: Duration,
    /// Until when its iterations belong to the warm-up.
    pub(super) warm_until: Option<Instant>,
}

impl Workers {
    pub(super) fn new(commands: Vec<UnboundedSender<Command>>, slots: Vec<SlotState>) -> Self {
        let arrivals = commands.iter().map(|_| Vec::new()).collect();
        Self { commands, slots, arrivals, turn: 0 }
    }

    fn drop_arrival(&self, slot: usize, at: Instant, cause: DropCause) {
        let SlotState { pool, warm_until, .. } = &self.slots[slot];
        if let Some(pool) = pool {
            pool.drop_arrival(cause, warm_until.is_some_and(|until| at < until));
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
        let Some(pool) = &self.slots[slot].pool else { return };
        self.turn = self.turn.wrapping_add(1);
        if let Some(worker) = pool.claim(self.turn % self.commands.len()) {
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
            Action::RetireAll | Action::CutAll => tell_all(&self.commands, command),
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
