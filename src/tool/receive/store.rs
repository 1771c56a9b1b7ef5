//! The spans of the run's traces, kept within a budget of bytes until their trace is complete. Pure: the caller says
//! what time it is.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use crate::model::id::TraceId;
use crate::model::span::{LoadRole, Span};
use crate::tool::analyse::reservoir::{Cell, Prospects};

use super::decode::Source;
use super::gone::{ByTraceId, Fate, Gone};

/// How long nothing may have come for a trace whose root is there, for it to count as complete; where services send
/// their spans as often as they are told to.
pub(crate) const QUIET: Duration = Duration::from_secs(2);

/// How long nothing may have come for a trace without a root until it is given up.
pub(crate) const ABANDONED: Duration = Duration::from_secs(300);

/// No single trace may take more than this share of the budget.
const TRACE_SHARE: usize = 8;

/// Open traces are looked at together that are due within this time.
const AGENDA_STEP: Duration = Duration::from_millis(100);

/// A trace is made for so many spans at most before they come.
const MOST_USUAL: usize = 8;

/// A span that has come, with what is needed to write it down as it came.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) span: Span,
    pub(super) source: Arc<Source>,
    /// An encoded `opentelemetry.proto.trace.v1.Span`.
    pub(super) bytes: &'a [u8],
}

/// A span as its sender encoded it.
#[derive(Debug, Clone)]
pub(crate) struct RawSpan {
    pub(super) source: Arc<Source>,
    /// An encoded `opentelemetry.proto.trace.v1.Span`.
    pub(super) bytes: Box<[u8]>,
}

impl RawSpan {
    /// In bytes, as its sender encoded it.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A trace that nothing more is expected for.
#[derive(Debug, Clone)]
pub(crate) struct CompletedTrace {
    pub(crate) id: TraceId,
    /// In order of arrival; duplicates are still in it.
    pub(crate) spans: Vec<Span>,
    /// The same spans, for [`Archive`](super::archive::Archive); `None` if there are examples enough of such traces.
    pub(crate) raw: Option<Vec<RawSpan>>,
    /// The iteration's root span is among them.
    #[cfg(test)]
    pub(crate) rooted: bool,
}

/// What became of the spans of this run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoreCounts {
    /// Spans that were kept, in traces that are open or were handed over.
    pub(crate) kept: u64,
    /// Spans that came for a trace that was already handed over.
    pub(crate) late: u64,
    /// Spans of traces that did not fit.
    pub(crate) refused: u64,
    pub(crate) traces_refused: u64,
    pub(crate) traces_completed: u64,
}

/// How far the spans of the run have come in, to decide how long to wait for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Traces that are not complete yet.
    pub(crate) open: usize,
    /// Spans kept so far.
    pub(crate) spans: u64,
    /// Not only the scenario process, but a service, too, has sent some.
    pub(crate) of_services: bool,
    pub(crate) last_arrival: Option<Instant>,
}

#[derive(Debug)]
struct OpenTrace {
    spans: Vec<Span>,
    /// Until it is known that there are examples enough of such traces.
    raw: Option<Vec<RawSpan>>,
    bytes: usize,
    rooted: bool,
    /// It will not be looked at before it is to be given up.
    waits_long: bool,
    last_arrival: Instant,
}

/// When to look at which trace: in steps of [`AGENDA_STEP`], so that nothing is sorted.
#[derive(Debug, Default)]
struct Agenda {
    /// What the steps are counted from.
    origin: Option<Instant>,
    steps: BTreeMap<u128, Vec<TraceId>>,
}

impl Agenda {
    fn put(&mut self, id: TraceId, at: Instant) {
        let step = self.step(at);
        self.steps.entry(step).or_default().push(id);
    }

    /// One whose time has come, or comes within a step.
    fn next(&mut self, now: Instant) -> Option<TraceId> {
        let step = self.step(now);
        loop {
            let mut first = self.steps.first_entry().filter(|first| *first.key() <= step)?;
            match first.get_mut().pop() {
                Some(id) => return Some(id),
                None => drop(first.remove()),
            }
        }
    }

    fn step(&mut self, at: Instant) -> u128 {
        let origin = *self.origin.get_or_insert(at);
        at.saturating_duration_since(origin).as_nanos() / AGENDA_STEP.as_nanos()
    }
}

#[derive(Debug)]
pub(crate) struct SpanStore {
    budget: usize,
    quiet: Duration,
    used: usize,
    open: HashMap<TraceId, OpenTrace, ByTraceId>,
    gone: Gone,
    /// When to look at each open trace again.
    agenda: Agenda,
    /// Those that were looked at too early, until all that is due was looked at.
    early: Vec<(TraceId, Instant)>,
    /// How many spans the last complete trace had: so many the next one is made for.
    usual: usize,
    prospects: Prospects,
    counts: StoreCounts,
    of_services: bool,
    last_arrival: Option<Instant>,
}

impl SpanStore {
    /// A store that holds at most about `budget` bytes, and takes a trace for complete when nothing has come for it
    /// for the time `quiet`.
    pub(crate) fn new(budget: usize, quiet: Duration) -> Self {
        Self {
            budget,
            quiet,
            used: 0,
            open: HashMap::default(),
            gone: Gone::default(),
            agenda: Agenda::default(),
            early: Vec::new(),
            usual: 2,
            prospects: Prospects::default(),
            counts: StoreCounts::default(),
            of_services: false,
            last_arrival: None,
        }
    }

    pub(super) fn insert(&mut self, arrivals: Vec<Arrival<'_>>, now: Instant) {
        let mut left = arrivals.into_iter();
        while let Some(id) = left.as_slice().first().map(|first| first.span.trace) {
            // What the scenario process sends of a trace mostly comes in a row.
            let run = left.as_slice().iter().take_while(|arrival| arrival.span.trace == id).count();
            // Mostly the trace is open, and then it is not gone.
            if !self.open.contains_key(&id) && self.counted_as_gone(id, run) {
                left.by_ref().take(run).for_each(drop);
                continue;
            }
            self.insert_run(id, &mut left, run, now);
        }
    }

    /// The first `run` of `arrivals`, which are all of the trace `id`.
    fn insert_run(&mut self, id: TraceId, arrivals: &mut IntoIter<Arrival<'_>>, run: usize, now: Instant) {
        let open = match self.open.entry(id) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => {
                self.agenda.put(id, now + self.quiet);
                new.insert(OpenTrace::new(self.usual, now))
            }
        };
        let coming = &arrivals.as_slice()[..run];
        if !open.rooted && coming.iter().any(|arrival| is_root(&arrival.span)) {
            open.rooted = true;
            if mem::take(&mut open.waits_long) {
                self.agenda.put(id, now + self.quiet);
            }
            let spans = open.spans.iter().chain(coming.iter().map(|arrival| &arrival.span));
            if !self.prospects.admit(id, spans.filter_map(Cell::of)) {
                self.used -= open.drop_raw();
            }
        }
        open.last_arrival = now;
        for at in 0..run {
            let Some(arrival) = arrivals.next() else { return };
            let cost = open.cost_of(&arrival);
            if self.used + cost > self.budget || open.bytes + cost > self.budget / TRACE_SHARE {
                self.refuse(id);
                self.counts.refused += arrivals.take(run - at - 1).count() as u64;
                return;
            }
            self.used += cost;
            self.counts.kept += 1;
            self.of_services |= arrival.span.load.is_none();
            self.last_arrival = Some(now);
            open.push(arrival, cost);
        }
    }

    /// Refuses the trace `id` as a whole, because of a span that cannot be kept.
    pub(super) fn refuse(&mut self, id: TraceId) {
        if self.counted_as_gone(id, 1) {
            return;
        }
        let held = self.open.remove(&id).map_or(0, |open| {
            self.used -= open.bytes;
            open.spans.len() as u64
        });
        self.counts.kept -= held;
        self.counts.refused += held + 1;
        self.counts.traces_refused += 1;
        self.gone.insert(id, Fate::Refused);
    }

    /// Whether the trace is gone; if so, the spans that came for it are counted.
    fn counted_as_gone(&mut self, id: TraceId, spans: usize) -> bool {
        match self.gone.get(id) {
            Some(Fate::Completed) => self.counts.late += spans as u64,
            Some(Fate::Refused) => self.counts.refused += spans as u64,
            None => return false,
        }
        true
    }

    /// Takes out traces that are complete at `now`, at most `most`; none when there are no more.
    pub(crate) fn take_complete(&mut self, now: Instant, most: usize) -> Vec<CompletedTrace> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(id) = self.agenda.next(now) else {
                mem::take(&mut self.early).into_iter().for_each(|(id, due)| self.agenda.put(id, due));
                break;
            };
            // One that is gone has been refused, or was on the agenda twice.
            let Entry::Occupied(open) = self.open.entry(id) else { continue };
            let due = open.get().due(self.quiet);
            if due <= now {
                let open = open.remove();
                taken.push(self.complete(id, open));
            } else {
                open.into_mut().waits_long = due > now + self.quiet;
                self.early.push((id, due));
            }
        }
        taken
    }

    /// Takes out all that is left, complete or not: the run is over.
    pub(crate) fn take_all(&mut self) -> Vec<CompletedTrace> {
        (self.agenda, self.early) = (Agenda::default(), Vec::new());
        let open = mem::take(&mut self.open);
        open.into_iter().map(|(id, open)| self.complete(id, open)).collect()
    }

    fn complete(&mut self, id: TraceId, open: OpenTrace) -> CompletedTrace {
        self.used -= open.bytes;
        self.gone.insert(id, Fate::Completed);
        self.counts.traces_completed += 1;
        self.usual = open.spans.len().min(MOST_USUAL);
        CompletedTrace {
            id,
            spans: open.spans,
            raw: open.raw,
            #[cfg(test)]
            rooted: open.rooted,
        }
    }

    pub(crate) fn counts(&self) -> StoreCounts {
        self.counts
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            open: self.open.len(),
            spans: self.counts.kept,
            of_services: self.of_services,
            last_arrival: self.last_arrival,
        }
    }
}

impl OpenTrace {
    fn new(spans: usize, now: Instant) -> Self {
        Self {
            spans: Vec::with_capacity(spans),
            raw: Some(Vec::new()),
            bytes: 0,
            rooted: false,
            waits_long: false,
            last_arrival: now,
        }
    }

    /// When it counts as complete if nothing more comes.
    fn due(&self, quiet: Duration) -> Instant {
        self.last_arrival + if self.rooted { quiet } else { ABANDONED }
    }

    /// About what `arrival` takes. The source is shared with other spans, yet counted whenever it differs from the
    /// one before: a sender whose every message has another resource cannot grow past the budget that way.
    fn cost_of(&self, arrival: &Arrival<'_>) -> usize {
        let raw = self.raw.as_ref().map_or(0, |raw| {
            let source = match raw.last() {
                Some(last) if Arc::ptr_eq(&last.source, &arrival.source) => 0,
                _ => arrival.source.len(),
            };
            size_of::<RawSpan>() + arrival.bytes.len() + source
        });
        size_of::<Span>() + raw
    }

    fn push(&mut self, arrival: Arrival<'_>, cost: usize) {
        self.bytes += cost;
        if let Some(raw) = &mut self.raw {
            raw.push(RawSpan { source: arrival.source, bytes: arrival.bytes.into() });
        }
        self.spans.push(arrival.span);
    }

    /// Keeps the spans only; what that frees, in bytes.
    fn drop_raw(&mut self) -> usize {
        self.raw = None;
        let spans = self.spans.len() * size_of::<Span>();
        mem::replace(&mut self.bytes, spans) - spans
    }
}

fn is_root(span: &Span) -> bool {
    span.load.as_ref().is_some_and(|load| load.role == LoadRole::Iteration)
}

#[cfg(test)]
pub(super) mod tests {
    use std::borrow::Borrow;

    use proptest::prelude::*;

    use super::super::decode::tests::{iteration, request_span, server};
    use super::*;
    use crate::sys::clock;

    fn at(base: Instant, millis: u64) -> Instant {
        base + Duration::from_millis(millis)
    }

    const PLENTY: usize = 1 << 20;

    /// A span as it came, to come again.
    #[derive(Debug, Clone)]
    pub(in crate::tool::receive) struct StoredSpan {
        pub(in crate::tool::receive) span: Span,
        pub(in crate::tool::receive) raw: RawSpan,
    }

    impl From<Arrival<'_>> for StoredSpan {
        fn from(arrival: Arrival<'_>) -> Self {
            let raw = RawSpan { source: arrival.source, bytes: arrival.bytes.into() };
            Self { span: arrival.span, raw }
        }
    }

    impl StoredSpan {
        fn arrival(&self) -> Arrival<'_> {
            Arrival { span: self.span.clone(), source: self.raw.source.clone(), bytes: &self.raw.bytes }
        }
    }

    impl SpanStore {
        fn put(&mut self, span: impl Borrow<StoredSpan>, now: Instant) {
            self.insert(vec![span.borrow().arrival()], now);
        }
    }

    #[test]
    fn a_trace_is_complete_when_its_root_has_come_and_then_nothing_for_the_quiet_time() {
        let start = clock::now();
        let mut store = SpanStore::new(PLENTY, QUIET);
        store.put(server(1, 10), at(start, 0));
        store.put(iteration(1, 1), at(start, 1000));
        store.put(server(1, 11), at(start, 1500));
        assert_eq!(store.take_complete(at(start, 3499), usize::MAX).len(), 0);
        let complete = store.take_complete(at(start, 3500), usize::MAX);
        assert_eq!(complete.len(), 1);
        assert!(complete[0].rooted);
        assert_eq!(complete[0].spans.len(), 3);
        assert_eq!(store.take_complete(at(start, 9000), usize::MAX).len(), 0);
        assert_eq!(store.used, 0);
    }

    #[test]
    fn of_traces_of_one_kind_only_a_few_are_kept_as_they_came() {
        let start = clock::now();
        let mut store = SpanStore::new(1 << 30, QUIET);
        let of_trace = |trace| [server(trace, 3), request_span(trace, 2), iteration(trace, 1)];
        let (few, many) = (100, 5000);
        let mut used = 0;
        for trace in 1..=many {
            for span in of_trace(trace) {
                store.put(span, start);
            }
            store.put(server(trace, 4), start);
            if trace == few {
                used = store.used;
            }
        }
        let spans_alone = size_of::<Span>() * 4;
        let growth = (store.used - used) / (many - few) as usize;
        assert!((spans_alone..spans_alone + 50).contains(&growth), "{growth} bytes a trace");

        let traces = store.take_all();
        assert!(traces.iter().all(|trace| trace.spans.len() == 4));
        let whole: Vec<_> = traces.iter().filter_map(|trace| trace.raw.as_ref()).collect();
        assert!((4..150).contains(&whole.len()), "{}", whole.len());
        assert!(whole.iter().all(|raw| raw.len() == 4), "those that are kept are whole");
        assert_eq!(store.used, 0);
    }

    #[test]
    fn a_trace_waits_longer_where_services_send_seldom() {
        // The batches of a service that nobody told otherwise come five seconds apart.
        let batch = 5000;
        for (quiet, spans) in [(QUIET, 1), (Duration::from_secs(6), 2)] {
            let start = clock::now();
            let mut store = SpanStore::new(PLENTY, quiet);
            store.put(iteration(1, 1), start);
            let mut complete = store.take_complete(at(start, batch - 1), usize::MAX);
            store.put(server(1, 10), at(start, batch));
            complete.extend(store.take_complete(at(start, batch) + quiet, usize::MAX));
            assert_eq!(complete.len(), 1);
            assert_eq!(complete[0].spans.len(), spans);
            assert_eq!(store.counts().late, 2 - spans as u64);
        }
    }

    #[test]
    fn spans_of_the_scenario_process_alone_are_of_no_service() {
        let start = clock::now();
        let mut store = SpanStore::new(PLENTY, QUIET);
        assert!(!store.progress().of_services);
        store.put(iteration(1, 1), start);
        assert!(!store.progress().of_services);
        store.put(server(1, 10), start);
        assert!(store.progress().of_services);
        store.take_all();
        assert!(store.progress().of_services, "also when it was handed over");
    }

    #[test]
    fn a_trace_without_a_root_waits_for_it_until_it_is_given_up() {
        let start = clock::now();
        let mut store = SpanStore::new(PLENTY, QUIET);
        store.put(server(1, 10), start);
        let last = at(start, 1);
        store.put(server(1, 11), last);
        assert_eq!(store.take_complete(start + ABANDONED, usize::MAX).len(), 0);
        let given_up = store.take_complete(last + ABANDONED, usize::MAX);
        assert_eq!(given_up.len(), 1);
        assert!(!given_up[0].rooted);
    }

    #[test]
    fn at_the_end_everything_is_handed_over() {
        let start = clock::now();
        let mut store = SpanStore::new(PLENTY, QUIET);
        store.put(server(1, 10), start);
        store.put(iteration(2, 1), start);
        assert_eq!(
            store.progress(),
            Progress { open: 2, spans: 2, of_services: true, last_arrival: Some(start) }
        );
        let mut ids: Vec<_> =
            store.take_all().iter().map(|trace| (trace.id.0 as u64, trace.rooted)).collect();
        ids.sort_unstable();
        assert_eq!(ids, [(1, false), (2, true)]);
        assert_eq!(store.progress().open, 0);
    }

    #[test]
    fn a_span_for_a_trace_that_was_handed_over_is_counted_as_late() {
        let start = clock::now();
        let mut store = SpanStore::new(PLENTY, QUIET);
        store.put(iteration(1, 1), start);
        store.take_complete(start + QUIET, usize::MAX);
        store.put(server(1, 10), start + QUIET);
        assert_eq!(
            store.counts(),
            StoreCounts { kept: 1, late: 1, traces_completed: 1, ..StoreCounts::default() }
        );
        assert!(store.take_all().is_empty());
    }

    #[test]
    fn a_trace_that_does_not_fit_is_refused_whole_and_stays_refused() {
        let start = clock::now();
        let one = size_of::<Span>()
            + size_of::<RawSpan>()
            + server(1, 1).raw.bytes.len()
            + server(1, 1).raw.source.len();
        let mut store = SpanStore::new(one * TRACE_SHARE + one / 2, QUIET);
        store.put(server(1, 10), start);
        store.put(server(2, 10), start);
        // The share of one trace is used up by its first span.
        store.put(server(1, 11), start);
        store.put(server(1, 12), start);
        assert_eq!(
            store.counts(),
            StoreCounts { kept: 1, refused: 3, traces_refused: 1, ..StoreCounts::default() }
        );
        for trace in 3..20 {
            store.put(server(trace, 10), start);
        }
        assert_eq!(store.counts().kept, TRACE_SHARE as u64);
        assert_eq!(store.take_all().len(), TRACE_SHARE);
        assert_eq!(store.used, 0);
        store.put(server(1, 13), start);
        assert_eq!(store.counts().kept, TRACE_SHARE as u64);
    }

    proptest! {
        #[test]
        fn every_span_is_counted_once_and_the_budget_holds(
            budget in 0_usize..20_000,
            steps in prop::collection::vec((1_u64..6, any::<bool>(), 0_u64..3000), 0..200),
            most in 1_usize..4,
        ) {
            let mut now = clock::now();
            let mut store = SpanStore::new(budget, QUIET);
            let mut handed_over = 0;
            for (index, (trace, root, pause)) in steps.iter().enumerate() {
                // Once in a while long enough for a trace to be given up.
                now += Duration::from_millis(if *pause % 20 == 0 { *pause * 200 } else { *pause });
                let id = index as u64 + 1;
                store.put(if *root { iteration(*trace, id) } else { server(*trace, id) }, now);
                prop_assert!(store.used <= budget);
                loop {
                    let taken = store.take_complete(now, most);
                    prop_assert!(taken.len() <= most);
                    handed_over += taken.iter().map(|trace| trace.spans.len()).sum::<usize>();
                    if taken.is_empty() {
                        break;
                    }
                }
                prop_assert!(store.open.values().all(|open| open.due(QUIET) > now), "all that is due is taken");
            }
            handed_over += store.take_all().iter().map(|trace| trace.spans.len()).sum::<usize>();
            let counts = store.counts();
            prop_assert_eq!(counts.kept, handed_over as u64);
            prop_assert_eq!(counts.kept + counts.late + counts.refused, steps.len() as u64);
            prop_assert_eq!(store.used, 0);
        }
    }
}
