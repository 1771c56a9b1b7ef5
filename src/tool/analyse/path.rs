//! The critical path of one step: a partition of its duration into operations, exact to the nanosecond.
//!
//! From the step's span take the child that finishes last. What lies after it is the span's own; the rest goes on
//! inside that child, and then with the child that had ended when it began. Children may overlap by 1% of their
//! parent and still count as one after the other: clocks and scheduling blur what is sequential (Zhang et al.,
//! "CRISP: Critical Path Analysis of Large-Scale Microservice Architectures", USENIX ATC 2022).
//!
//! A child in the same process that outlives its parent by more than that was not waited for (a spawned task): it
//! has no part in the path. An answer from another process was waited for and always has one.

use super::op::{OTHER, OpId, Operations, Pseudo};
use super::tree::Tree;
use crate::model::span::LoadRole;
use crate::model::stats::StepKind;

/// Operations told apart in one request. What is beyond, the least first, is charged to [`Pseudo::Other`].
const MAX_OPERATIONS: usize = 256;

/// One operation's part in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpCost {
    pub(crate) op: OpId,
    pub(crate) critical_ns: u64,
    /// Spans of the operation below the request, on the critical path or not.
    pub(crate) calls: u32,
}

/// Buffers that are used again for each step of a trace. Of the vectors by node only those of the step's own
/// subtree are read, after they were written.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The operation that a node's own time is charged to.
    charged_to: Vec<OpId>,
    descent: Vec<(usize, Option<OpId>)>,
    windows: Vec<Window>,
    costs: Vec<OpCost>,
}

impl Scratch {
    pub(super) fn new(tree: &Tree<'_>) -> Self {
        Self {
            charged_to: vec![OTHER; tree.nodes.len()],
            descent: Vec::new(),
            windows: Vec::new(),
            costs: Vec::new(),
        }
    }
}

/// The part of the step's duration that a node has to account for.
#[derive(Debug)]
struct Window {
    node: usize,
    from: i128,
    to: i128,
}

/// Whether any answer to this request arrived from another process.
pub(super) fn is_answered(tree: &Tree<'_>, request: usize) -> bool {
    tree.children(request).iter().any(|child| tree.nodes[*child].span.load.is_none())
}

/// The operations of the step `root`, by number. Their critical times sum to its duration.
pub(super) fn partition(
    tree: &Tree<'_>,
    root: usize,
    operations: &mut Operations,
    scratch: &mut Scratch,
) -> Vec<OpCost> {
    scratch.costs.clear();
    name_subtree(tree, root, operations, scratch);
    walk(tree, root, scratch);
    merge(&mut scratch.costs);
    if scratch.costs.len() > MAX_OPERATIONS {
        scratch.costs.sort_by_key(|cost| std::cmp::Reverse((cost.critical_ns, cost.calls)));
        for cost in &mut scratch.costs[MAX_OPERATIONS - 1..] {
            cost.op = OTHER;
        }
        merge(&mut scratch.costs);
    }
    scratch.costs.clone()
}

/// Finds the operation of each span below `root`, and counts the span.
fn name_subtree(tree: &Tree<'_>, root: usize, operations: &mut Operations, scratch: &mut Scratch) {
    scratch.descent.push((root, None));
    while let Some((at, above)) = scratch.descent.pop() {
        let span = tree.nodes[at].span;
        let within = if at == root { None } else { Some(operations.of_span(above, span)) };
        let role = span.load.as_ref().map(|load| &load.role);
        let charged_to = match (role, within) {
            (Some(LoadRole::Step { kind: StepKind::Request, .. }), _) => {
                let answered = is_answered(tree, at);
                let own = if answered { Pseudo::ClientToServer } else { Pseudo::Uninstrumented };
                operations.of_pseudo(within, own)
            }
            (_, None) => operations.of_pseudo(None, Pseudo::Uninstrumented),
            // A step inside a step, like an author's span, is named by the author: it says where time went.
            (_, Some(op)) => op,
        };
        scratch.charged_to[at] = charged_to;
        scratch.costs.push(OpCost { op: charged_to, critical_ns: 0, calls: 1 });
        scratch.descent.extend(tree.children(at).iter().map(|child| (*child, within)));
    }
}

fn walk(tree: &Tree<'_>, root: usize, scratch: &mut Scratch) {
    let (from, to) = (tree.nodes[root].start, tree.nodes[root].end);
    scratch.windows.push(Window { node: root, from, to });
    while let Some(Window { node: at, from, to }) = scratch.windows.pop() {
        let node = &tree.nodes[at];
        let blur = node.duration() / 100;
        // Where the path has come to, going back in time: within the window, and as the node's own children see it.
        let (mut cursor, mut reached) = (to, node.end);
        let mut own = 0;
        for child in tree.children(at) {
            if cursor <= from {
                break;
            }
            let child_node = &tree.nodes[*child];
            let ended = child_node.end_within(node);
            if ended > reached + blur {
                continue;
            }
            reached = reached.min(child_node.start);
            let part = Window { node: *child, from: child_node.start.max(from), to: ended.min(cursor) };
            if part.from < part.to {
                own += cursor - part.to;
                cursor = part.from;
                scratch.windows.push(part);
            }
        }
        own += cursor - from;
        let critical_ns = u64::try_from(own).expect("a part of a duration that is a u64");
        scratch.costs.push(OpCost { op: scratch.charged_to[at], critical_ns, calls: 0 });
    }
}

fn merge(costs: &mut Vec<OpCost>) {
    costs.sort_unstable_by_key(|cost| cost.op);
    costs.dedup_by(|next, into| {
        let same = next.op == into.op;
        if same {
            into.critical_ns += next.critical_ns;
            into.calls = into.calls.saturating_add(next.calls);
        }
        same
    });
}
