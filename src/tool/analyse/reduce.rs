//! One whole trace → for each step in it what its time was spent on, and whether its story is complete.

use std::sync::Arc;

use super::op::Operations;
use super::path::{OpCost, Scratch, is_answered, partition};
use super::tree::Tree;
use crate::model::id::{SpanId, TraceId};
use crate::model::span::{LoadRole, Span};
use crate::model::stats::{Phase, StepKind};

/// Steps inside steps that get rows of their own. Deeper ones still are part of the rows around them; the limit
/// keeps the work linear in the number of spans.
const MAX_NESTING: u32 = 16;

/// Why not all of a request's chain of spans is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NotJoined {
    /// A span came whose parent did not, and this request had begun last when it began.
    OrphanSpan,
    /// The request went well but no span of a server came.
    NoServerSpan,
    /// The request failed, and no span of a server came: perhaps it never reached one.
    RequestFailed,
}

impl NotJoined {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OrphanSpan => "orphan-span",
            Self::NoServerSpan => "no-server-span",
            Self::RequestFailed => "request-failed",
        }
    }
}

/// One request or timed step, and where its time went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestPath {
    pub(crate) scenario: Arc<str>,
    pub(crate) kind: StepKind,
    pub(crate) step: Arc<str>,
    pub(crate) phase: Phase,
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    /// Finite and not negative; 0 has no part in statistics.
    pub(crate) weight: f64,
    pub(crate) expected: bool,
    /// Their `critical_ns` sum to `duration_ns`.
    pub(crate) ops: Vec<OpCost>,
    /// A timed step is joined when every request in it is, and no orphan began in it.
    pub(crate) joined: Result<(), NotJoined>,
}

/// What is known of a trace, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TraceFacts {
    /// Without duplicates.
    pub(crate) spans: u64,
    pub(crate) duplicates: u64,
    /// Spans whose parent is missing, is the span itself, or closed a cycle.
    pub(crate) orphans: u64,
    /// Steps nested too deeply for a row of their own.
    pub(crate) too_deep: u64,
}

impl TraceFacts {
    pub(crate) fn add(&mut self, other: Self) {
        self.spans += other.spans;
        self.duplicates += other.duplicates;
        self.orphans += other.orphans;
        self.too_deep += other.too_deep;
    }
}

/// A trace, reduced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reduced {
    /// In the order in which the steps began.
    pub(crate) paths: Vec<RequestPath>,
    pub(crate) facts: TraceFacts,
}

/// Reduces the spans of one trace, in whatever order and state they came.
pub(crate) fn reduce(spans: &[Span], operations: &mut Operations) -> Reduced {
    let tree = Tree::new(spans);
    let mut facts = TraceFacts {
        spans: tree.nodes.len() as u64,
        duplicates: tree.duplicates as u64,
        orphans: tree.orphans.len() as u64,
        too_deep: 0,
    };
    let mut steps = Vec::new();
    let mut nesting = vec![0_u32; tree.nodes.len()];
    for at in &tree.top_down {
        let node = &tree.nodes[*at];
        let within = node.parent.map_or(0, |parent| nesting[parent]);
        nesting[*at] = within + u32::from(node.step().is_some());
        if node.step().is_some() {
            if within < MAX_NESTING {
                steps.push(*at);
            } else {
                facts.too_deep += 1;
            }
        }
    }
    let gaps = find_gaps(&tree, &steps);
    steps.sort_by_key(|at| (tree.nodes[*at].start, *at));
    let mut scratch = Scratch::new(&tree);
    let paths = steps
        .into_iter()
        .filter_map(|at| {
            let node = &tree.nodes[at];
            let load = node.span.load.as_ref()?;
            let LoadRole::Step { kind, name } = &load.role else { return None };
            Some(RequestPath {
                scenario: load.scenario.clone(),
                kind: *kind,
                step: name.clone(),
                phase: load.phase,
                trace: node.span.trace,
                span: node.span.id,
                start_ns: node.span.start_ns,
                duration_ns: node.span.end_ns.saturating_sub(node.span.start_ns),
                weight: if load.weight.is_finite() { load.weight.max(0.0) } else { 0.0 },
                expected: load.expected,
                ops: partition(&tree, at, operations, &mut scratch),
                joined: gaps[at].map_or(Ok(()), Err),
            })
        })
        .collect();
    Reduced { paths, facts }
}

/// By node, for the nodes in `steps` (each after those around it): what keeps the step from being joined.
fn find_gaps(tree: &Tree<'_>, steps: &[usize]) -> Vec<Option<NotJoined>> {
    let mut gaps = vec![None; tree.nodes.len()];
    for at in steps {
        let node = &tree.nodes[*at];
        let is_request = node
            .step()
            .is_some_and(|load| matches!(load.role, LoadRole::Step { kind: StepKind::Request, .. }));
        if is_request && !is_answered(tree, *at) {
            let failed = node.span.error;
            gaps[*at] = Some(if failed { NotJoined::RequestFailed } else { NotJoined::NoServerSpan });
        }
    }
    // Nothing in an orphan says which step it belongs to but the time at which it began.
    let mut by_start: Vec<_> = steps.iter().map(|at| (tree.nodes[*at].start, *at)).collect();
    by_start.sort_unstable();
    for orphan in &tree.orphans {
        // A step whose iteration's span is missing has its own chain whole.
        if tree.nodes[*orphan].step().is_some() {
            continue;
        }
        let begun = by_start.partition_point(|(start, _)| *start <= tree.nodes[*orphan].start);
        if let Some((_, step)) = by_start.get(begun.saturating_sub(1)) {
            gaps[*step] = Some(NotJoined::OrphanSpan);
        }
    }
    let mut around = vec![None; tree.nodes.len()];
    for at in &tree.top_down {
        if let Some(parent) = tree.nodes[*at].parent {
            around[*at] = if tree.nodes[parent].step().is_some() { Some(parent) } else { around[parent] };
        }
    }
    for at in steps.iter().rev() {
        if let (Some(gap), Some(outer)) = (gaps[*at], around[*at]) {
            let known = gaps[outer].get_or_insert(gap);
            *known = gap.min(*known);
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::testing::{request, span, step};
    use super::*;
    use crate::model::span::SpanKind;

    type Costs = BTreeMap<String, (u64, u32)>;

    /// By span id: the operations by path (`service:name/…`), each with its critical time and calls.
    fn costs(spans: &[Span]) -> BTreeMap<u64, Costs> {
        let mut operations = Operations::default();
        let reduced = reduce(spans, &mut operations);
        let by_path = |path: &RequestPath| {
            let named = |cost: &OpCost| {
                let path = operations.path(cost.op);
                let names: Vec<_> =
                    path.iter().map(|label| format!("{}:{}", label.service, label.name)).collect();
                (names.join("/"), (cost.critical_ns, cost.calls))
            };
            let costs: Costs = path.ops.iter().map(named).collect();
            assert_eq!(costs.len(), path.ops.len(), "each path once");
            costs
        };
        reduced.paths.iter().map(|path| (path.span.0, by_path(path))).collect()
    }

    #[track_caller]
    fn check(spans: &[Span], id: u64, want: &[(&str, u64, u32)]) {
        let got = costs(spans).remove(&id).expect("the step has a row");
        let want: Costs = want.iter().map(|(path, ns, calls)| ((*path).to_owned(), (*ns, *calls))).collect();
        assert_eq!(got, want);
    }

    fn joined(spans: &[Span]) -> Vec<Result<(), NotJoined>> {
        reduce(spans, &mut Operations::default()).paths.iter().map(|path| path.joined).collect()
    }

    /// A request of 0 to 1000 whose server span `gw` lasts from 100 to 900.
    fn served() -> Vec<Span> {
        vec![request(1, "r").at(0, 1000), span(2).named("gw").server("gw").under(1).at(100, 900)]
    }

    fn served_with(more: impl IntoIterator<Item = Span>) -> Vec<Span> {
        served().into_iter().chain(more).collect()
    }

    #[test]
    fn a_chain_through_services_is_partitioned_and_a_clients_own_time_is_its_operation() {
        let spans = served_with([
            span(3).named("call").client("gw").under(2).at(200, 800),
            span(4).named("auth").server("auth").under(3).at(250, 750),
            span(5).named("bcrypt").of("auth").under(4).at(300, 700),
        ]);
        check(
            &spans,
            1,
            &[
                ("-:(client → server)", 200, 1),
                ("gw:gw", 200, 1),
                ("gw:gw/gw:call", 100, 1),
                ("gw:gw/gw:call/auth:auth", 100, 1),
                ("gw:gw/gw:call/auth:auth/auth:bcrypt", 400, 1),
            ],
        );
        assert_eq!(joined(&spans), [Ok(())]);
    }

    #[test]
    fn of_parallel_children_the_last_to_finish_is_the_path_and_before_it_what_had_ended() {
        let spans = served_with([
            span(3).named("a").under(2).at(100, 300),
            span(4).named("b").under(2).at(250, 600),
            span(5).named("c").under(2).at(350, 850),
        ]);
        // c from 350; b had not ended then, a had: 300 to 350 and 850 to 900 are gw's.
        check(
            &spans,
            1,
            &[
                ("-:(client → server)", 200, 1),
                ("gw:gw", 100, 1),
                ("gw:gw/svc:a", 200, 1),
                ("gw:gw/svc:b", 0, 1),
                ("gw:gw/svc:c", 500, 1),
            ],
        );
    }

    #[test]
    fn siblings_may_overlap_by_a_hundredth_of_their_parent() {
        // gw lasts 800: 8 is a hundredth.
        for (end, a, gw) in [(508, 300, 200), (509, 0, 500)] {
            let spans = served_with([
                span(3).named("a").of("gw").under(2).at(200, end),
                span(4).named("b").of("gw").under(2).at(500, 800),
            ]);
            check(
                &spans,
                1,
                &[
                    ("-:(client → server)", 200, 1),
                    ("gw:gw", gw, 1),
                    ("gw:gw/gw:a", a, 1),
                    ("gw:gw/gw:b", 300, 1),
                ],
            );
        }
    }

    #[test]
    fn a_spawned_child_that_outlives_its_parent_hides_nothing() {
        let spans = served_with([
            span(3).named("mail").of("gw").under(2).at(300, 5000),
            span(4).named("bcrypt").of("gw").under(2).at(200, 880),
        ]);
        check(
            &spans,
            1,
            &[
                ("-:(client → server)", 200, 1),
                ("gw:gw", 120, 1),
                ("gw:gw/gw:bcrypt", 680, 1),
                ("gw:gw/gw:mail", 0, 1),
            ],
        );
    }

    #[test]
    fn a_server_whose_clock_is_off_is_centred_with_all_below_it() {
        for off in [0, 5_000, 1 << 50] {
            let spans = [
                request(1, "r").at(10_000, 11_000),
                span(2).named("gw").server("gw").under(1).at(10_100 + off, 10_900 + off),
                span(3).named("db").of("gw").under(2).at(10_200 + off, 10_500 + off),
            ];
            check(&spans, 1, &[("-:(client → server)", 200, 1), ("gw:gw", 500, 1), ("gw:gw/gw:db", 300, 1)]);
        }
    }

    #[test]
    fn a_server_span_longer_than_the_wait_for_it_takes_all_of_it() {
        // Centred: from -50 to 1050. Its child is then at 550 to 950.
        let spans = [
            request(1, "r").at(1000, 2000),
            span(2).named("gw").server("gw").under(1).at(1500, 2600),
            span(3).named("db").of("gw").under(2).at(2100, 2500),
        ];
        check(&spans, 1, &[("-:(client → server)", 0, 1), ("gw:gw", 600, 1), ("gw:gw/gw:db", 400, 1)]);
    }

    #[test]
    fn a_consumer_that_works_later_is_left_where_it_is() {
        let spans = served_with([
            span(3).named("publish").of("gw").kind(SpanKind::Producer).under(2).at(200, 300),
            span(4).named("handle").of("worker").kind(SpanKind::Consumer).under(3).at(4000, 9000),
        ]);
        check(
            &spans,
            1,
            &[
                ("-:(client → server)", 200, 1),
                ("gw:gw", 700, 1),
                ("gw:gw/gw:publish", 100, 1),
                ("gw:gw/gw:publish/worker:handle", 0, 1),
            ],
        );
    }

    #[test]
    fn several_attempts_are_calls_of_one_operation() {
        let attempt = |id, start, end| span(id).named("GET /u").client("gw").under(2).at(start, end);
        let spans = served_with([attempt(3, 100, 300), attempt(4, 400, 600), attempt(5, 600, 850)]);
        check(&spans, 1, &[("-:(client → server)", 200, 1), ("gw:gw", 150, 1), ("gw:gw/gw:GET /u", 650, 3)]);
    }

    #[test]
    fn client_and_server_may_share_a_span_id() {
        // As Zipkin has it: both halves are span 3 below 2, and the work below names 3.
        let spans = served_with([
            span(3).named("call").client("gw").under(2).at(200, 800),
            span(3).named("auth").server("auth").under(2).at(300, 700),
            span(4).named("bcrypt").of("auth").under(3).at(400, 600),
            span(5).named("connect").of("gw").under(3).at(200, 250),
        ]);
        check(
            &spans,
            1,
            &[
                ("-:(client → server)", 200, 1),
                ("gw:gw", 200, 1),
                ("gw:gw/gw:call", 150, 1),
                ("gw:gw/gw:call/gw:connect", 50, 1),
                ("gw:gw/gw:call/auth:auth", 200, 1),
                ("gw:gw/gw:call/auth:auth/auth:bcrypt", 200, 1),
            ],
        );
        // Also with the scenario's own request.
        let shared = [request(1, "r").at(0, 100), span(1).named("gw").server("gw").at(10, 90)];
        check(&shared, 1, &[("-:(client → server)", 20, 1), ("gw:gw", 80, 1)]);
        assert_eq!(joined(&shared), [Ok(())]);
    }

    #[test]
    fn a_timed_step_contains_its_requests_and_they_keep_their_rows() {
        let spans = [
            step(1, "checkout").at(0, 1000),
            request(2, "r").under(1).at(100, 500),
            span(3).named("gw").server("gw").under(2).at(200, 400),
            span(4).named("parse").of("loadtest").load(LoadRole::Author).under(1).at(600, 700),
        ];
        check(
            &spans,
            1,
            &[
                ("-:(uninstrumented)", 500, 1),
                ("loadtest:r/-:(client → server)", 200, 1),
                ("loadtest:r/gw:gw", 200, 1),
                ("loadtest:parse", 100, 1),
            ],
        );
        check(&spans, 2, &[("-:(client → server)", 200, 1), ("gw:gw", 200, 1)]);
        assert_eq!(joined(&spans), [Ok(()), Ok(())]);
    }

    #[test]
    fn absurd_times_have_no_length_but_what_can_be_told() {
        // A span that ends before it starts has no length; a request like that has no duration.
        let spans = served_with([span(3).named("a").of("gw").under(2).at(500, 300)]);
        check(&spans, 1, &[("-:(client → server)", 200, 1), ("gw:gw", 800, 1), ("gw:gw/gw:a", 0, 1)]);
        check(&[request(1, "r").at(u64::MAX, 0)], 1, &[("-:(uninstrumented)", 0, 1)]);
        check(&[request(1, "r").at(0, u64::MAX)], 1, &[("-:(uninstrumented)", u64::MAX, 1)]);
    }

    #[test]
    fn duplicates_cycles_and_missing_parents_are_counted_and_charged_to_the_step_begun_last() {
        let second = [
            request(11, "second").at(2000, 3000),
            span(12).named("gw").server("gw").under(11).at(2100, 2900),
        ];
        let spans = |more: Vec<Span>| served_with(second.iter().cloned().chain(more));
        let orphan = Err(NotJoined::OrphanSpan);
        for (more, want) in [
            (vec![span(20).under(99).at(500, 600)], [orphan, Ok(())]),
            (vec![span(20).under(99).at(1500, 1600)], [orphan, Ok(())]),
            (vec![span(20).under(99).at(2500, 2600)], [Ok(()), orphan]),
            (vec![span(20).under(20).at(2500, 2600)], [Ok(()), orphan]),
            (vec![span(20).under(21).at(500, 600), span(21).under(20).at(550, 560)], [orphan, Ok(())]),
        ] {
            let spans = spans(more.clone());
            assert_eq!(joined(&spans), want, "{more:?}");
            let doubled: Vec<Span> = spans.iter().chain(&spans).cloned().collect();
            let facts = |spans: &[Span]| reduce(spans, &mut Operations::default()).facts;
            let once = TraceFacts { spans: spans.len() as u64, orphans: 1, ..TraceFacts::default() };
            assert_eq!(facts(&spans), once);
            assert_eq!(facts(&doubled), TraceFacts { duplicates: spans.len() as u64, ..once });
            assert_eq!(costs(&spans), costs(&doubled));
        }
    }

    #[test]
    fn a_request_without_a_server_span_says_whether_it_failed() {
        let mut failed = request(2, "r").at(10, 20);
        failed.error = true;
        let around = step(3, "outer").at(9, 30);
        let spans = [request(1, "r").at(0, 10), failed.under(3), around];
        let (none, failed) = (Err(NotJoined::NoServerSpan), Err(NotJoined::RequestFailed));
        assert_eq!(joined(&spans), [none, failed, failed]);
        check(&spans, 1, &[("-:(uninstrumented)", 10, 1)]);
    }

    #[test]
    fn a_request_is_whole_without_the_span_of_its_iteration() {
        let mut spans = served();
        spans[0] = spans[0].clone().under(77);
        assert_eq!(joined(&spans), [Ok(())]);
        assert_eq!(reduce(&spans, &mut Operations::default()).facts.orphans, 1);
    }

    #[test]
    fn weights_that_are_no_weights_are_none() {
        for (weight, want) in [(2.5, 2.5), (0.0, 0.0), (-1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0)] {
            let spans = [request(1, "r").with(|load| load.weight = weight)];
            let weight = reduce(&spans, &mut Operations::default()).paths[0].weight;
            assert!((weight - want).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn a_chain_of_100_000_spans_takes_no_stack_and_linear_time() {
        let count = 100_000;
        let mut spans = vec![request(1, "r").at(0, 2 * count)];
        spans.extend((2..count).map(|id| span(id).named("deep").under(id - 1).at(id, 2 * count - id)));
        let mut operations = Operations::default();
        let reduced = reduce(&spans, &mut operations);
        let ops = &reduced.paths[0].ops;
        assert_eq!(ops.iter().map(|cost| cost.critical_ns).sum::<u64>(), 2 * count);
        assert_eq!(ops.iter().map(|cost| u64::from(cost.calls)).sum::<u64>(), count - 1);
        assert!(ops.len() <= 257, "{} parts", ops.len());
        // Steps in steps, each of which would walk all below it.
        let steps: Vec<Span> =
            (1..count).map(|id| step(id, "s").under(id - 1).at(id, 2 * count - id)).collect();
        let reduced = reduce(&steps, &mut operations);
        assert_eq!((reduced.paths.len(), reduced.facts.too_deep), (16, count - 1 - 16));
    }

    fn any_span() -> impl Strategy<Value = Span> {
        let time = || prop_oneof![4 => 0_u64..60, 1 => Just(u64::MAX), 1 => any::<u64>()];
        let kind = prop_oneof![
            Just(SpanKind::Internal),
            Just(SpanKind::Server),
            Just(SpanKind::Client),
            Just(SpanKind::Producer),
            Just(SpanKind::Consumer)
        ];
        (0_u64..14, proptest::option::of(0_u64..14), time(), time(), kind, 0_u8..8, 0_u8..3).prop_map(
            |(id, parent, start, end, kind, role, service)| {
                let span = match role {
                    0 => request(id, "r"),
                    1 => step(id, "s"),
                    2 => span(id).load(LoadRole::Author),
                    3 => span(id).load(LoadRole::Iteration),
                    _ => span(id).kind(kind).of(["a", "b", "c"][usize::from(service)]),
                };
                Span { parent: parent.map(SpanId), ..span.at(start, end) }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn every_trace_is_partitioned_exactly_in_whatever_order_it_came(
            (spans, shuffled) in proptest::collection::vec(any_span(), 0..40)
                .prop_flat_map(|spans| (Just(spans.clone()), Just(spans).prop_shuffle())),
        ) {
            let mut operations = Operations::default();
            let reduced = reduce(&spans, &mut operations);
            for path in &reduced.paths {
                let sum: u128 = path.ops.iter().map(|cost| u128::from(cost.critical_ns)).sum();
                prop_assert_eq!(sum, u128::from(path.duration_ns));
                prop_assert!(path.ops.windows(2).all(|pair| pair[0].op < pair[1].op));
            }
            let facts = reduced.facts;
            prop_assert_eq!(facts.spans + facts.duplicates, spans.len() as u64);
            prop_assert_eq!(reduced, reduce(&shuffled, &mut Operations::default()));
        }
    }
}
