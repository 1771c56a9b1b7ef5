//! Finished traces of one scenario binary: reduced at once for attribution; a few whole ones kept for the archive.

use std::collections::HashMap;
use std::io;

use crate::model::event::Warning;
use crate::model::id::TraceId;
use crate::model::stats::RunStats;
use crate::model::summarise::Joined;
use crate::model::summary::Attribution;
use crate::sys::fs::WholeFile;
use crate::tool::analyse::attribute::Attributor;
use crate::tool::analyse::reservoir::{Cell, Decision, PER_CELL, TraceReservoir};
use crate::tool::receive::archive::Archive;
use crate::tool::receive::store::{CompletedTrace, RawSpan};

/// How much of whole traces is held, as their senders encoded them.
const HELD_BYTES: u64 = 64 << 20;

/// The file of whole traces.
pub(super) type SpanArchive = Archive<WholeFile>;

#[derive(Debug)]
pub(super) struct Collector {
    attributor: Attributor,
    reservoir: TraceReservoir,
    held: HashMap<TraceId, Vec<RawSpan>>,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            attributor: Attributor::default(),
            reservoir: TraceReservoir::new(HELD_BYTES, PER_CELL),
            held: HashMap::new(),
        }
    }

    pub(super) fn take(&mut self, trace: CompletedTrace) {
        let reduced = self.attributor.reduce(&trace.spans);
        self.attributor.add(reduced);
        let Some(raw) = trace.raw else { return };
        let bytes = raw.iter().map(RawSpan::size).sum();
        match self.reservoir.offer(trace.id, bytes, trace.spans.iter().filter_map(Cell::of)) {
            Decision::Refuse => {}
            Decision::Keep => {
                self.held.insert(trace.id, raw);
            }
            Decision::Replace(out) => {
                out.iter().for_each(|id| drop(self.held.remove(id)));
                self.held.insert(trace.id, raw);
            }
        }
    }

    /// Where the time of each step went.
    pub(super) fn attributions(&self, package: &str, stats: &RunStats) -> Vec<Attribution> {
        self.attributor.attributions(package, |scenario, key| {
            stats.load.get(scenario).and_then(|scenario| scenario.steps.get(key)).map(|step| &step.latency)
        })
    }

    /// What a reader should know of the attribution before believing it.
    pub(super) fn doubt(&self) -> Option<Warning> {
        let left_out = self.attributor.left_out();
        (left_out > 0).then(|| {
            let message = format!(
                "{left_out} traced requests were left out of where the time goes: there were too many"
            );
            Warning::new("attribution-thinned", message)
        })
    }

    pub(super) fn joined(&self) -> Joined {
        let trace = self.attributor.joined();
        Joined {
            requests_traced: trace.requests_traced,
            requests_joined: trace.requests_joined,
            not_joined: trace.not_joined,
        }
    }

    /// Writes the whole traces that were held.
    pub(super) fn archive(self, archive: &mut SpanArchive) -> io::Result<()> {
        let mut traces: Vec<_> = self.held.into_iter().collect();
        traces.sort_by_key(|(id, _)| *id);
        traces.iter().try_for_each(|(_, raw)| archive.write(raw))
    }
}
