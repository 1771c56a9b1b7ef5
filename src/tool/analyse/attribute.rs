//! Where the time of each step went: reduced requests gathered in bounded memory, and the summary's rows of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::band::{self, ENOUGH};
use super::op::{LabelId, Operations};
use super::path::OpCost;
use super::reduce::{Reduced, RequestPath, TraceFacts, reduce};
use super::shares;
use crate::model::id::TraceId;
use crate::model::latency::Latency;
use crate::model::span::Span;
use crate::model::stats::{Phase, StepKey, StepKind};
use crate::model::summary::{Attribution, Band, SlowTrace, Trace, millis};

/// Slowest traces named for each step.
const SLOWEST: usize = 3;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Requests of one step.
    pub(crate) requests_per_step: usize,
    /// Parts of requests, of all steps together. A part takes 16 bytes.
    pub(crate) parts: usize,
    /// Steps.
    pub(crate) steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests_per_step: 20_000, parts: 4_000_000, steps: 5_000 }
    }
}

/// A request as it is kept.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) trace: TraceId,
    pub(super) duration_ns: u64,
    pub(super) weight: f64,
    pub(super) ops: Box<[OpCost]>,
}

/// Critical times of a step in the reference phase.
#[derive(Debug, Default)]
pub(super) struct Reference {
    requests: u64,
    critical_ns: HashMap<LabelId, u128>,
}

impl Reference {
    fn add(&mut self, ops: &[OpCost], table: &Operations) {
        self.requests += 1;
        for cost in ops {
            *self.critical_ns.entry(table.label_of(cost.op)).or_default() += u128::from(cost.critical_ns);
        }
    }

    /// `None` for an operation that did not occur in the reference phase.
    pub(super) fn mean_ns(&self, label: LabelId) -> Option<f64> {
        self.critical_ns.get(&label).map(|sum| *sum as f64 / self.requests as f64)
    }
}

/// The requests of one step.
#[derive(Debug)]
struct Step {
    /// Expected ones with weight, kept or not.
    seen: u64,
    kept: Vec<Request>,
    /// Traces whose [`rank`] is above are not kept. Lowered by half whenever there are too many, so that those kept
    /// are a uniform sample of all iterations, the early and the late ones alike, whatever the order of arrival.
    ceiling: u64,
    parts: usize,
    slowest: Vec<(u64, TraceId)>,
    reference: Reference,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            seen: 0,
            kept: Vec::new(),
            ceiling: u64::MAX,
            parts: 0,
            slowest: Vec::new(),
            reference: Reference::default(),
        }
    }
}

impl Step {
    fn keep(&mut self, path: RequestPath) {
        self.parts += path.ops.len();
        self.kept.push(Request {
            trace: path.trace,
            duration_ns: path.duration_ns,
            weight: path.weight,
            ops: path.ops.into(),
        });
    }

    fn thin(&mut self) {
        self.ceiling /= 2;
        self.kept.retain(|request| rank(request.trace) <= self.ceiling);
        self.parts = self.kept.iter().map(|request| request.ops.len()).sum();
    }

    fn note_slow(&mut self, duration_ns: u64, trace: TraceId) {
        match self.slowest.iter_mut().find(|(_, known)| *known == trace) {
            Some((known, _)) => *known = duration_ns.max(*known),
            None => self.slowest.push((duration_ns, trace)),
        }
        self.slowest.sort_unstable_by_key(|(duration, trace)| (std::cmp::Reverse(*duration), *trace));
        self.slowest.truncate(SLOWEST);
    }
}

/// A number that follows from the trace's id alone and is as good as random (the finalizer of `SplitMix64`): all
/// of an iteration's requests are kept, or none, in every step alike.
pub(super) fn rank(trace: TraceId) -> u64 {
    let mut mixed = (trace.0 >> 64) as u64 ^ trace.0 as u64;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

type Key = (Arc<str>, StepKind, Arc<str>);

/// Gathers reduced traces, and says in the end where the time of each step went.
#[derive(Debug, Default)]
pub(crate) struct Attributor {
    limits: Limits,
    operations: Operations,
    steps: BTreeMap<Key, Step>,
    parts: usize,
    trace: Trace,
    facts: TraceFacts,
    left_out: u64,
}

impl Attributor {
    #[cfg(test)]
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reduces one whole trace; see [`Self::add`].
    pub(crate) fn reduce(&mut self, spans: &[Span]) -> Reduced {
        reduce(spans, &mut self.operations)
    }

    /// Takes what [`Self::reduce`] of the same `Attributor` made.
    pub(crate) fn add(&mut self, reduced: Reduced) {
        self.facts.add(reduced.facts);
        for path in reduced.paths {
            self.count_joined(&path);
            if path.expected {
                self.take(path);
            }
        }
    }

    /// Only weighted requests of the load count: those without weight may have been traced on one side only.
    fn count_joined(&mut self, path: &RequestPath) {
        if path.kind != StepKind::Request || path.phase != Phase::Load || path.weight <= 0.0 {
            return;
        }
        self.trace.requests_traced += 1;
        match path.joined {
            Ok(()) => self.trace.requests_joined += 1,
            Err(reason) => *self.trace.not_joined.entry(reason.as_str().to_owned()).or_default() += 1,
        }
    }

    fn take(&mut self, path: RequestPath) {
        let key = (path.scenario.clone(), path.kind, path.step.clone());
        if self.steps.len() >= self.limits.steps && !self.steps.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let step = self.steps.entry(key).or_default();
        if path.phase == Phase::Reference {
            step.reference.add(&path.ops, &self.operations);
            return;
        }
        step.note_slow(path.duration_ns, path.trace);
        if path.weight <= 0.0 {
            return;
        }
        step.seen += 1;
        if rank(path.trace) <= step.ceiling {
            let before = step.parts;
            step.keep(path);
            while step.kept.len() > self.limits.requests_per_step && step.ceiling > 0 {
                step.thin();
            }
            self.parts = self.parts + step.parts - before;
            self.fit();
        }
    }

    /// Thins the largest step while all together are too large.
    fn fit(&mut self) {
        while self.parts > self.limits.parts {
            let Some(step) = self.steps.values_mut().max_by_key(|step| step.parts) else { return };
            if step.ceiling == 0 {
                return;
            }
            self.parts -= step.parts;
            step.thin();
            self.parts += step.parts;
        }
    }

    /// The operations that the paths of [`Self::reduce`] name.
    #[cfg(test)]
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    #[cfg(test)]
    pub(crate) fn facts(&self) -> TraceFacts {
        self.facts
    }

    /// Weighted, expected requests that the shares do not rest on, because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        let kept: u64 = self.steps.values().map(|step| step.kept.len() as u64).sum();
        let seen: u64 = self.steps.values().map(|step| step.seen).sum();
        self.left_out + seen - kept
    }

    /// How many requests were traced, and how many of them joined.
    pub(crate) fn joined(&self) -> Trace {
        let Trace { requests_traced, requests_joined, .. } = self.trace;
        let share = (requests_traced > 0).then(|| requests_joined as f64 / requests_traced as f64);
        Trace { requests_joined_share: share, ..self.trace.clone() }
    }

    /// For each step that was traced in the load: the tail, if `latency` knows the step, and the mean. `latency` has
    /// of a scenario's step all expected responses of the load.
    pub(crate) fn attributions<'a>(
        &self,
        package: &str,
        latency: impl Fn(&str, &StepKey) -> Option<&'a Latency>,
    ) -> Vec<Attribution> {
        let mut all = Vec::new();
        for ((scenario, kind, name), step) in &self.steps {
            if step.slowest.is_empty() {
                continue;
            }
            let key = StepKey { kind: *kind, name: name.to_string() };
            let kept: Vec<&Request> = step.kept.iter().collect();
            let mut bands = Vec::new();
            if let Some(latency) = latency(scenario, &key) {
                let durations: Vec<u64> = kept.iter().map(|request| request.duration_ns).collect();
                let (band, inside) = band::tail(&durations, latency);
                let held = kept.iter().zip(inside).filter(|(_, inside)| *inside);
                bands.push((band, held.map(|(request, _)| *request).collect()));
            }
            bands.push((Band::All, kept));
            for (band, requests) in bands {
                all.push(self.attribution(package, scenario, &key, step, band, &requests));
            }
        }
        all
    }

    fn attribution(
        &self,
        package: &str,
        scenario: &str,
        key: &StepKey,
        step: &Step,
        band: Band,
        requests: &[&Request],
    ) -> Attribution {
        let durations = || requests.iter().map(|request| request.duration_ns);
        let edge = |nanos: Option<u64>| millis(nanos.unwrap_or(0) as f64);
        let (operations, mean_ms) = if requests.len() >= ENOUGH {
            shares::operations(requests, &step.reference, &self.operations)
        } else {
            (Vec::new(), shares::mean_ms(requests))
        };
        let slowest = step.slowest.iter().map(|(duration, trace)| SlowTrace {
            trace_id: trace.to_string(),
            duration_ms: millis(*duration as f64),
        });
        Attribution {
            package: package.to_owned(),
            scenario: scenario.to_owned(),
            step: key.name.clone(),
            kind: key.kind,
            band,
            requests: step.seen,
            requests_in_band: requests.len() as u64,
            band_ms: [edge(durations().min()), edge(durations().max())],
            mean_ms,
            operations,
            slowest: slowest.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{request, span};
    use super::*;
    use crate::model::span::LoadSpan;
    use crate::model::summary::Operation;

    const MS: u64 = 1_000_000;

    /// A request of `ms`, of which all but 10 is `bcrypt`'s, in a trace of its own.
    fn trace(id: u64, ms: u64, change: impl FnOnce(&mut LoadSpan)) -> Vec<Span> {
        let spans = [
            request(1, "r").at(0, ms * MS).with(change),
            span(2).named("gw").server("gw").under(1).at(2 * MS, (ms - 2) * MS),
            span(3).named("bcrypt").of("gw").under(2).at(5 * MS, (ms - 5) * MS),
        ];
        // Spread over the ids, as random ids are.
        let id = u128::from(id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        spans.into_iter().map(|span| span.in_trace(id)).collect()
    }

    fn of(traces: impl IntoIterator<Item = Vec<Span>>) -> Attributor {
        let mut attributor = Attributor::default();
        add(&mut attributor, traces);
        attributor
    }

    fn add(attributor: &mut Attributor, traces: impl IntoIterator<Item = Vec<Span>>) {
        for spans in traces {
            let reduced = attributor.reduce(&spans);
            attributor.add(reduced);
        }
    }

    fn latency(millis: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        millis.into_iter().for_each(|ms| latency.record(Duration::from_millis(ms)));
        latency
    }

    fn row<'a>(attribution: &'a Attribution, operation: &str) -> &'a Operation {
        attribution.operations.iter().find(|row| row.operation == operation).expect("the operation has a row")
    }

    #[track_caller]
    fn sums_to_its_mean(attribution: &Attribution) {
        let sum: f64 = attribution.operations.iter().map(|row| row.critical_ms).sum();
        let share: f64 = attribution.operations.iter().map(|row| row.share).sum();
        assert!((sum - attribution.mean_ms).abs() < 1e-6, "{sum} is not {}", attribution.mean_ms);
        assert!((share - 1.0).abs() < 1e-4, "{share}");
    }

    #[test]
    fn the_tail_and_the_mean_are_explained_beside_the_unloaded_time() {
        // 101 to 1100 ms; alone 30 ms.
        let load = (101..=1100).map(|ms| trace(ms, ms, |_| {}));
        let alone = (1..=5).map(|id| trace(id, 30, |load| load.phase = Phase::Reference));
        let attributor = of(load.chain(alone));
        let latency = latency(101..=1100);
        let rows = attributor.attributions("blog", |_, _| Some(&latency));
        assert_eq!(rows.iter().map(|row| row.band).collect::<Vec<_>>(), [Band::P95, Band::All]);
        let [tail, all] = rows.as_slice() else { unreachable!() };
        assert_eq!((tail.package.as_str(), tail.scenario.as_str(), tail.step.as_str()), ("blog", "s", "r"));
        // The histogram's buckets are 1 ms wide there.
        assert_eq!((tail.requests, tail.requests_in_band), (1000, 31));
        assert_eq!((tail.band_ms, tail.mean_ms), ([1035.0, 1065.0], 1050.0));
        let names: Vec<_> = tail.operations.iter().map(|row| row.operation.as_str()).collect();
        assert_eq!(names, ["bcrypt", "gw", "(client → server)"]);
        let bcrypt = row(tail, "bcrypt");
        assert_eq!((bcrypt.service.as_str(), bcrypt.kind.as_str()), ("gw", "internal"));
        assert_eq!((bcrypt.critical_ms, bcrypt.share), (1040.0, 0.990_476));
        assert_eq!((bcrypt.calls, bcrypt.unloaded_ms), (1.0, Some(20.0)));
        let [low, high] = bcrypt.share_ci95;
        assert!(low <= bcrypt.share && bcrypt.share <= high && high - low < 0.001, "{low} to {high}");
        let network = row(tail, "(client → server)");
        assert_eq!((network.service.as_str(), network.kind.as_str()), ("-", "pseudo"));
        assert_eq!((network.critical_ms, network.unloaded_ms), (4.0, Some(4.0)));
        assert_eq!((all.requests_in_band, all.mean_ms), (1000, 600.5));
        assert_eq!((row(all, "bcrypt").critical_ms, row(all, "bcrypt").calls), (590.5, 1.0));
        sums_to_its_mean(tail);
        sums_to_its_mean(all);
        let slowest: Vec<_> = all.slowest.iter().map(|slow| slow.duration_ms).collect();
        assert_eq!(slowest, [1100.0, 1099.0, 1098.0]);
    }

    #[test]
    fn with_too_few_there_are_no_shares_but_the_slowest() {
        let latency = latency(101..=150);
        let rows = of((101..=150).map(|ms| trace(ms, ms, |_| {}))).attributions("p", |_, _| Some(&latency));
        let facts: Vec<_> =
            rows.iter().map(|row| (row.band, row.requests_in_band, row.operations.len())).collect();
        assert_eq!(facts, [(Band::SlowerHalf, 25, 0), (Band::All, 50, 3)]);
        assert_eq!((rows[0].mean_ms, rows[0].slowest.len()), (138.0, 3));
        // Without a histogram nothing is said of percentiles.
        let rows = of([trace(1, 50, |_| {})]).attributions("p", |_, _| None);
        assert_eq!((rows.len(), rows[0].band, rows[0].operations.len()), (1, Band::All, 0));
    }

    #[test]
    fn what_is_for_show_or_unexpected_or_alone_is_in_no_share() {
        let attributor = of([
            trace(1, 100, |load| load.weight = 0.0),
            trace(2, 900, |load| load.expected = false),
            trace(3, 800, |load| load.phase = Phase::Reference),
        ]);
        let rows = attributor.attributions("p", |_, _| None);
        assert_eq!((rows.len(), rows[0].requests, rows[0].requests_in_band), (1, 0, 0));
        assert_eq!(rows[0].slowest.iter().map(|slow| slow.duration_ms).collect::<Vec<_>>(), [100.0]);
        // Of these only the unexpected one is a weighted request of the load.
        assert_eq!(attributor.joined().requests_traced, 1);
    }

    #[test]
    fn joined_requests_are_counted_and_the_others_by_reason() {
        let mut attributor = of((1..=8).map(|id| trace(id, 100, |_| {})));
        add(&mut attributor, [vec![request(1, "r")], vec![request(1, "r")]]);
        let trace = attributor.joined();
        assert_eq!((trace.requests_traced, trace.requests_joined), (10, 8));
        assert_eq!(trace.requests_joined_share, Some(0.8));
        assert_eq!(trace.not_joined, BTreeMap::from([("no-server-span".to_owned(), 2)]));
        assert_eq!(Attributor::default().joined().requests_joined_share, None);
        assert_eq!(attributor.facts().spans, 26);
    }

    #[test]
    fn the_operations_of_a_trace_are_named_by_their_paths() {
        let mut attributor = Attributor::default();
        let reduced = attributor.reduce(&trace(1, 100, |_| {}));
        let longest = reduced.paths[0].ops.iter().max_by_key(|cost| cost.critical_ns).unwrap();
        let path = attributor.operations().path(longest.op);
        assert_eq!(path.iter().map(|label| &*label.name).collect::<Vec<_>>(), ["gw", "bcrypt"]);
    }

    #[test]
    fn weights_undo_unequal_sampling() {
        // Slow requests are one in ten of 4000. All of the slow were traced, a fifth of the fast.
        let (fast, slow) = (50, 550);
        let all = (0..4000_u64).map(|id| (id, if id % 10 == 0 { slow } else { fast }));
        let sampled = all.filter(|(id, ms)| *ms == slow || id / 10 % 5 == 0);
        let attributor =
            of(sampled
                .map(|(id, ms)| trace(id, ms, |load| load.weight = if ms == slow { 1.0 } else { 5.0 })));
        let rows = attributor.attributions("p", |_, _| None);
        // 0.9 × 50 + 0.1 × 550 = 100, and 10 of each request is not bcrypt's. Without weights it would be 229.
        assert_eq!((rows[0].requests, rows[0].mean_ms), (400 + 720, 100.0));
        let bcrypt = row(&rows[0], "bcrypt");
        assert_eq!((bcrypt.critical_ms, bcrypt.share, bcrypt.calls), (90.0, 0.9, 1.0));
        sums_to_its_mean(&rows[0]);
    }

    #[test]
    fn rows_that_round_down_alike_still_sum_to_the_mean() {
        // 1000 ns by three: 333.3 each, in microseconds.
        let third = |id| {
            vec![
                request(1, "r").at(0, 1000).in_trace(id),
                span(2).named("a").server("a").under(1).at(333, 666).in_trace(id),
                span(3).named("b").of("a").under(2).at(333, 500).in_trace(id),
            ]
        };
        let rows = of((1..=30).map(third)).attributions("p", |_, _| None);
        assert_eq!((rows[0].mean_ms, rows[0].operations.len()), (0.001, 3));
        sums_to_its_mean(&rows[0]);
    }

    #[test]
    fn beyond_its_limits_a_uniform_sample_is_kept_and_the_rest_counted() {
        let limits = Limits { requests_per_step: 500, parts: 1200, steps: 1 };
        let mut attributor = Attributor::new(limits);
        add(&mut attributor, (0..10_000).map(|id| trace(id, 100 + id / 100, |_| {})));
        add(&mut attributor, [vec![request(1, "another")]]);
        let kept = attributor.steps.values().next().unwrap();
        assert!((150..=400).contains(&kept.kept.len()), "{}", kept.kept.len());
        assert_eq!(attributor.parts, kept.kept.len() * 3);
        assert_eq!(attributor.left_out(), 10_001 - kept.kept.len() as u64);
        let rows = attributor.attributions("p", |_, _| None);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].requests, rows[0].requests_in_band), (10_000, kept.kept.len() as u64));
        // 149.5 in all; ± 29 / √400 is one standard error.
        assert!((rows[0].mean_ms - 149.5).abs() < 6.0, "{}", rows[0].mean_ms);
    }

    #[test]
    fn of_very_many_operations_the_small_ones_are_summed() {
        let many = |id: u128| {
            let mut spans = vec![request(1, "r").at(0, 1_000_000)];
            spans.extend((0..200_u64).map(|n| {
                span(n + 2).server("gw").named(&format!("op {n}")).under(1).at(n * 5000, n * 5000 + 2000 + n)
            }));
            spans.into_iter().map(|span| span.in_trace(id)).collect::<Vec<_>>()
        };
        let rows = of((1..=30).map(many)).attributions("p", |_, _| None);
        assert_eq!(rows[0].operations.len(), 50);
        // 48 have rows beside the client's own; 152 of 2000 to 2151 ns are summed.
        let other = row(&rows[0], "(other)");
        assert_eq!((other.calls, other.kind.as_str()), (152.0, "pseudo"));
        assert!((other.critical_ms - (152.0 * 2075.5 / 1e6)).abs() < 1e-3, "{}", other.critical_ms);
        sums_to_its_mean(&rows[0]);
    }

    #[test]
    fn the_slowest_are_different_traces() {
        let twice = |id: u128, ms: u64| {
            [1, 2].map(|span| request(span, "r").at(0, ms * MS + span).in_trace(id)).to_vec()
        };
        let rows = of((1..=5).map(|n| twice(n.into(), n * 10))).attributions("p", |_, _| None);
        let ids: Vec<_> = rows[0].slowest.iter().map(|slow| slow.trace_id.as_str()).collect();
        let id = |n: u128| TraceId(n).to_string();
        assert_eq!(ids, [id(5), id(4), id(3)]);
    }
}
