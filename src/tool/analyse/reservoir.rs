//! Which whole traces are worth storing: a bounded choice that no burst and no long run can starve.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::attribute::rank;
use crate::model::id::TraceId;
use crate::model::span::{LoadRole, Span};
use crate::model::stats::StepKind;

/// What a stored trace is an example of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    pub(crate) scenario: Arc<str>,
    pub(crate) kind: StepKind,
    pub(crate) step: Arc<str>,
    /// Of the wall clock.
    pub(crate) minute: u64,
    /// Durations within a factor of two: the binary logarithm of the duration in microseconds.
    pub(crate) band: u32,
}

impl Cell {
    /// What `span` is an example of, if it is a request or a timed step.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        let load = span.load.as_ref()?;
        let LoadRole::Step { kind, name } = &load.role else { return None };
        Some(Self {
            scenario: load.scenario.clone(),
            kind: *kind,
            step: name.clone(),
            minute: span.start_ns / 60_000_000_000,
            band: (span.end_ns.saturating_sub(span.start_ns) / 1000).checked_ilog2().unwrap_or(0),
        })
    }
}

/// Whole traces held of each [`Cell`].
pub(crate) const PER_CELL: usize = 4;

/// Cells in which [`Prospects`] remembers what it saw. Beyond it, it starts anew, and admits more than it has to.
const CELLS: usize = 1 << 12;

/// Says early of a trace whether a reservoir that holds [`PER_CELL`] of a cell can still want it, so that the others
/// need not be held until they are offered: all that belong to the lowest [`rank`]s seen so far of one of their cells.
#[derive(Debug, Default)]
pub(crate) struct Prospects {
    lowest: HashMap<Cell, [u64; PER_CELL]>,
}

impl Prospects {
    pub(crate) fn admit(&mut self, trace: TraceId, cells: impl IntoIterator<Item = Cell>) -> bool {
        let rank = rank(trace);
        let mut admitted = false;
        for cell in cells {
            if self.lowest.len() >= CELLS && !self.lowest.contains_key(&cell) {
                self.lowest.clear();
            }
            // What was not seen yet ranks highest.
            let lowest = self.lowest.entry(cell).or_insert([u64::MAX; PER_CELL]);
            if let Some(highest) = lowest.iter_mut().max().filter(|highest| rank < **highest) {
                *highest = rank;
                admitted = true;
            }
        }
        admitted
    }
}

/// What to do with a trace that was offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Keep,
    Refuse,
    /// Keep it, and forget these.
    Replace(Vec<TraceId>),
}

/// A trace in the reservoir. Of those in one cell, the ones with the lowest `rank` are the ones to keep: a uniform
/// sample, whatever the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    rank: u64,
    trace: TraceId,
    bytes: u64,
}

/// Decides which traces to keep within a number of bytes. It holds their ids and sizes, not the traces.
///
/// Each trace stands for one of its requests' [`Cell`]s, the one with the fewest examples, so that rare steps and
/// rare latencies have theirs. When the bytes are spent, the cell with the most examples gives way.
#[derive(Debug)]
pub(crate) struct TraceReservoir {
    max_bytes: u64,
    per_cell: usize,
    cells: BTreeMap<Cell, BTreeSet<Kept>>,
    /// Each cell that is not empty, by its number of examples and the one that goes first.
    by_size: BTreeSet<(usize, u64, Cell)>,
    traces: HashMap<TraceId, Cell>,
    bytes: u64,
    refused: u64,
}

impl TraceReservoir {
    pub(crate) fn new(max_bytes: u64, per_cell: usize) -> Self {
        Self {
            max_bytes,
            per_cell: per_cell.max(1),
            cells: BTreeMap::new(),
            by_size: BTreeSet::new(),
            traces: HashMap::new(),
            bytes: 0,
            refused: 0,
        }
    }

    /// Offers a whole trace of `bytes`, whose requests fall into `cells`. One without requests is refused.
    pub(crate) fn offer(
        &mut self,
        trace: TraceId,
        bytes: u64,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Decision {
        if self.traces.contains_key(&trace) {
            return Decision::Keep;
        }
        let cell = cells.into_iter().min_by_key(|cell| (self.size(cell), cell.clone()));
        let new = Kept { rank: rank(trace), trace, bytes };
        let Some((gone, cell)) = cell.and_then(|cell| Some((self.make_room(&cell, new)?, cell))) else {
            self.refused += 1;
            return Decision::Refuse;
        };
        self.insert(cell, new);
        self.refused += gone.len() as u64;
        if gone.is_empty() { Decision::Keep } else { Decision::Replace(gone) }
    }

    /// Traces that were offered and are not kept.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.traces.len()
    }

    fn size(&self, cell: &Cell) -> usize {
        self.cells.get(cell).map_or(0, BTreeSet::len)
    }

    /// Removes what has to go before `new`, or, if something of more worth would have to go, nothing.
    fn make_room(&mut self, cell: &Cell, new: Kept) -> Option<Vec<TraceId>> {
        if new.bytes > self.max_bytes {
            return None;
        }
        let mut gone: Vec<(Cell, Kept)> = Vec::new();
        loop {
            let size = self.size(cell);
            let full = size >= self.per_cell;
            if !full && self.bytes + new.bytes <= self.max_bytes {
                return Some(gone.into_iter().map(|(_, kept)| kept.trace).collect());
            }
            // Another cell gives one up if it is left with no fewer than this one then has; of equals, the higher
            // rank goes. Within a cell the lower rank stays.
            let fullest = self.by_size.last().filter(|(most, highest, fullest)| {
                !full && fullest != cell && (size + 1, new.rank) < (*most, *highest)
            });
            let victim = if let Some((_, _, fullest)) = fullest {
                self.worst(fullest).map(|kept| (fullest.clone(), kept))
            } else {
                let own = self.worst(cell).filter(|kept| new.rank < kept.rank);
                own.map(|kept| (cell.clone(), kept))
            };
            let Some((from, kept)) = victim else {
                for (cell, kept) in gone {
                    self.insert(cell, kept);
                }
                return None;
            };
            self.remove(&from, kept);
            gone.push((from, kept));
        }
    }

    fn worst(&self, cell: &Cell) -> Option<Kept> {
        self.cells.get(cell)?.last().copied()
    }

    fn insert(&mut self, cell: Cell, kept: Kept) {
        self.bytes += kept.bytes;
        self.traces.insert(kept.trace, cell.clone());
        self.change(cell, |traces| traces.insert(kept));
    }

    fn remove(&mut self, cell: &Cell, kept: Kept) {
        self.bytes -= kept.bytes;
        self.traces.remove(&kept.trace);
        self.change(cell.clone(), |traces| traces.remove(&kept));
    }

    fn change(&mut self, cell: Cell, change: impl FnOnce(&mut BTreeSet<Kept>) -> bool) {
        let mut traces = self.cells.remove(&cell).unwrap_or_default();
        if let Some(last) = traces.last() {
            self.by_size.remove(&(traces.len(), last.rank, cell.clone()));
        }
        change(&mut traces);
        if let Some(last) = traces.last() {
            self.by_size.insert((traces.len(), last.rank, cell.clone()));
            self.cells.insert(cell, traces);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{request, span};
    use super::*;

    fn cell(step: &str, minute: u64, band: u32) -> Cell {
        Cell { scenario: "s".into(), kind: StepKind::Request, step: step.into(), minute, band }
    }

    /// The traces that are kept in the end.
    fn kept(decisions: impl IntoIterator<Item = (TraceId, Decision)>) -> BTreeSet<TraceId> {
        let mut kept = BTreeSet::new();
        for (trace, decision) in decisions {
            match decision {
                Decision::Keep => assert!(kept.insert(trace)),
                Decision::Refuse => {}
                Decision::Replace(gone) => {
                    assert!(!gone.is_empty() && gone.iter().all(|trace| kept.remove(trace)));
                    assert!(kept.insert(trace));
                }
            }
        }
        kept
    }

    #[test]
    fn requests_of_a_step_and_minute_within_a_factor_of_two_share_a_cell() {
        let of = |start_s: u64, millis: u64| {
            let start = start_s * 1_000_000_000;
            Cell::of(&request(1, "r").at(start, start + millis * 1_000_000)).unwrap()
        };
        assert_eq!(of(60, 17), of(119, 32));
        assert_ne!(of(60, 17), of(120, 17));
        assert_ne!(of(60, 17), of(60, 34));
        assert_eq!(of(0, 0).band, 0);
        assert_eq!(Cell::of(&span(1).load(LoadRole::Iteration)), None);
        assert_eq!(Cell::of(&span(1)), None);
    }

    #[test]
    fn a_cell_holds_a_uniform_sample_in_whatever_order_traces_come() {
        let run = |ids: &[u128]| {
            let mut reservoir = TraceReservoir::new(u64::MAX, 100);
            kept(ids.iter().map(|id| {
                let trace = TraceId(*id);
                (trace, reservoir.offer(trace, 1, [cell("a", 0, 3)]))
            }))
        };
        let forward: Vec<u128> = (1..=10_000).collect();
        let backward: Vec<u128> = forward.iter().rev().copied().collect();
        let sample = run(&forward);
        assert_eq!(sample.len(), 100);
        assert_eq!(sample, run(&backward));
        let early = sample.iter().filter(|trace| trace.0 <= 5000).count();
        assert!((30..=70).contains(&early), "{early} of the first half");
    }

    #[test]
    fn a_burst_leaves_room_for_what_comes_later_and_for_what_is_rare() {
        let mut reservoir = TraceReservoir::new(100, 1000);
        let offers = (1..=5000_u128).map(|id| {
            let step = match id {
                4000.. => cell("late", 9, 3),
                _ if id % 1000 == 500 => cell("rare", 0, 9),
                _ => cell("burst", 0, 3),
            };
            (TraceId(id), step)
        });
        let kept = kept(offers.map(|(trace, cell)| (trace, reservoir.offer(trace, 1, [cell]))));
        assert_eq!((kept.len(), reservoir.len(), reservoir.bytes()), (100, 100, 100));
        assert_eq!(reservoir.refused(), 4900);
        let of = |step| reservoir.size(&step);
        assert_eq!(of(cell("rare", 0, 9)), 4);
        assert_eq!((of(cell("burst", 0, 3)), of(cell("late", 9, 3))), (48, 48));
    }

    #[test]
    fn a_trace_stands_for_the_rarest_of_its_requests() {
        let mut reservoir = TraceReservoir::new(1000, 2);
        for id in 1..=2 {
            reservoir.offer(TraceId(id), 1, [cell("common", 0, 3)]);
        }
        assert_eq!(
            reservoir.offer(TraceId(3), 1, [cell("common", 0, 3), cell("rare", 0, 3)]),
            Decision::Keep
        );
        assert_eq!(reservoir.size(&cell("rare", 0, 3)), 1);
    }

    #[test]
    fn all_that_a_reservoir_keeps_is_admitted_and_little_else() {
        let mut prospects = Prospects::default();
        let mut reservoir = TraceReservoir::new(u64::MAX, PER_CELL);
        let mut all = TraceReservoir::new(u64::MAX, PER_CELL);
        let (mut admitted, mut wanted) = (0, 0);
        for id in 1..=10_000_u128 {
            let cells = [cell("a", 0, 3), cell("b", 0, (id % 2) as u32)];
            let kept = all.offer(TraceId(id), 1, cells[..1].to_vec()) != Decision::Refuse;
            if prospects.admit(TraceId(id), cells.clone()) {
                admitted += 1;
                reservoir.offer(TraceId(id), 1, cells);
            } else {
                wanted += u32::from(kept);
            }
        }
        assert_eq!(wanted, 0);
        assert!((12..200).contains(&admitted), "{admitted}");
        assert_eq!(reservoir.len(), 3 * PER_CELL, "each cell has its examples");
    }

    #[test]
    fn prospects_of_ever_more_cells_take_no_more_room() {
        let mut prospects = Prospects::default();
        for minute in 0..3 * CELLS as u64 {
            assert!(prospects.admit(TraceId(minute.into()), [cell("a", minute, 0)]));
        }
        assert!(prospects.lowest.len() <= CELLS);
        assert!(!prospects.admit(TraceId(1), []));
    }

    #[test]
    fn a_trace_offered_again_stays_and_one_that_cannot_fit_or_shows_nothing_is_refused() {
        let mut reservoir = TraceReservoir::new(10, 2);
        assert_eq!(reservoir.offer(TraceId(1), 10, [cell("a", 0, 0)]), Decision::Keep);
        assert_eq!(reservoir.offer(TraceId(1), 10, [cell("a", 0, 0)]), Decision::Keep);
        assert_eq!(reservoir.offer(TraceId(2), 11, [cell("b", 0, 0)]), Decision::Refuse);
        assert_eq!(reservoir.offer(TraceId(3), 1, []), Decision::Refuse);
        assert_eq!((reservoir.refused(), reservoir.bytes(), reservoir.len()), (2, 10, 1));
    }

    proptest! {
        #[test]
        fn it_is_never_over_its_bounds_and_its_decisions_add_up(
            offers in proptest::collection::vec((1_u128..200, 0_u64..40, 0_u64..3, 0_u32..3), 0..300),
        ) {
            let mut reservoir = TraceReservoir::new(100, 5);
            let mut kept: BTreeMap<TraceId, u64> = BTreeMap::new();
            let mut refused = 0;
            for (id, bytes, minute, band) in offers {
                let trace = TraceId(id);
                let again = kept.contains_key(&trace);
                match reservoir.offer(trace, bytes, [cell("a", minute, band)]) {
                    Decision::Keep if again => continue,
                    Decision::Keep => {}
                    Decision::Refuse => { refused += 1; continue }
                    Decision::Replace(gone) => for trace in gone {
                        prop_assert!(kept.remove(&trace).is_some());
                        refused += 1;
                    }
                }
                kept.insert(trace, bytes);
                prop_assert!(reservoir.bytes() <= 100);
                prop_assert!(reservoir.cells.values().all(|cell| (1..=5).contains(&cell.len())));
            }
            prop_assert_eq!(reservoir.bytes(), kept.values().sum::<u64>());
            prop_assert_eq!((reservoir.len(), reservoir.refused()), (kept.len(), refused));
            prop_assert_eq!(reservoir.by_size.len(), reservoir.cells.len());
        }
    }
}
