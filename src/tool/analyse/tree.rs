//! One trace as a forest: duplicates gone, parents resolved, cycles cut, remote clocks brought into line.

use std::cmp::Ordering;

use crate::model::id::SpanId;
use crate::model::span::{LoadRole, LoadSpan, Span, SpanKind};
use crate::model::stats::StepKind;

/// A span in its place. Times are wide enough that no shift of any `u64` leaves them.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) span: &'a Span,
    pub(super) parent: Option<usize>,
    pub(super) start: i128,
    pub(super) end: i128,
    /// Another process's answer to its parent: the parent waited for it, whatever the clocks say.
    pub(super) answers: bool,
}

impl Node<'_> {
    pub(super) fn duration(&self) -> i128 {
        self.end - self.start
    }

    /// The step of the load that this span is, if it is one.
    pub(super) fn step(&self) -> Option<&LoadSpan> {
        self.span.load.as_deref().filter(|load| matches!(load.role, LoadRole::Step { .. }))
    }
}

/// The spans of one trace. The order in which they came makes no difference.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    /// Every node after its parent.
    pub(super) top_down: Vec<usize>,
    /// Spans whose parent is missing, is the span itself, or closed a cycle.
    pub(super) orphans: Vec<usize>,
    pub(super) duplicates: usize,
    children: Vec<usize>,
    first_child: Vec<usize>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(spans: &'a [Span]) -> Self {
        let mut distinct: Vec<&Span> = spans.iter().collect();
        distinct.sort_by(|a, b| canonical(a, b));
        let places = Places::of_distinct(&mut distinct);
        let duplicates = spans.len() - distinct.len();

        let mut orphans = Vec::new();
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(distinct.len());
        for (at, span) in distinct.iter().enumerate() {
            let parent = parent_of(span, &places, &distinct).filter(|parent| *parent != at);
            if parent.is_none() && span.parent.is_some() {
                orphans.push(at);
            }
            parents.push(parent);
        }
        cut_cycles(&mut parents, &mut orphans);

        let nodes = distinct
            .into_iter()
            .zip(parents)
            .map(|(span, parent)| Node {
                span,
                parent,
                start: span.start_ns.into(),
                end: span.end_ns.max(span.start_ns).into(),
                answers: false,
            })
            .collect();
        let mut tree = Self {
            nodes,
            top_down: Vec::new(),
            orphans,
            duplicates,
            children: Vec::new(),
            first_child: Vec::new(),
        };
        tree.link();
        tree.align();
        tree.sort_children();
        tree
    }

    /// The one that ends last first; of two that end together the longer one.
    pub(super) fn children(&self, node: usize) -> &[usize] {
        &self.children[self.first_child[node]..self.first_child[node + 1]]
    }

    fn link(&mut self) {
        let count = self.nodes.len();
        let mut first = vec![0; count + 1];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            first[parent + 1] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        self.children = vec![0; first[count]];
        for (at, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => {
                    self.children[next[parent]] = at;
                    next[parent] += 1;
                }
                None => self.top_down.push(at),
            }
        }
        self.first_child = first;
        let mut done = 0;
        while done < self.top_down.len() {
            let node = self.top_down[done];
            self.top_down
                .extend_from_slice(&self.children[self.first_child[node]..self.first_child[node + 1]]);
            done += 1;
        }
    }

    /// Shifts each answer that does not fit the span that waited for it, and all below it, to that span's middle.
    /// An answer longer than the wait covers it on both sides.
    fn align(&mut self) {
        let mut shifts = vec![0_i128; self.nodes.len()];
        for at in &self.top_down {
            let Some(parent) = self.nodes[*at].parent else { continue };
            let (outer_start, outer_end) = (self.nodes[parent].start, self.nodes[parent].end);
            let answers = is_answer(self.nodes[*at].span, self.nodes[parent].span);
            let node = &mut self.nodes[*at];
            let mut shift = shifts[parent];
            let (start, end) = (node.start + shift, node.end + shift);
            if answers && (start < outer_start || end > outer_end) {
                let slack = (outer_end - outer_start) - (end - start);
                shift += outer_start + slack.div_euclid(2) - start;
            }
            node.start += shift;
            node.end += shift;
            node.answers = answers;
            shifts[*at] = shift;
        }
    }

    fn sort_children(&mut self) {
        for at in 0..self.nodes.len() {
            let (from, to) = (self.first_child[at], self.first_child[at + 1]);
            let nodes = &self.nodes;
            self.children[from..to].sort_unstable_by(|a, b| {
                let (a_end, b_end) = (nodes[*a].end_within(&nodes[at]), nodes[*b].end_within(&nodes[at]));
                b_end.cmp(&a_end).then(nodes[*a].start.cmp(&nodes[*b].start)).then(a.cmp(b))
            });
        }
    }
}

impl Node<'_> {
    /// When `parent` saw it end: an answer has come when the wait for it is over, all else may go on.
    pub(super) fn end_within(&self, parent: &Self) -> i128 {
        if self.answers { self.end.min(parent.end) } else { self.end }
    }
}

/// Where a span stands: its id, and which side it is of an id that client and server share, as Zipkin has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    id: SpanId,
    server: bool,
}

impl Place {
    fn of(span: &Span) -> Self {
        Self { id: span.id, server: span.kind == SpanKind::Server }
    }
}

/// Where the spans of a trace stand, sorted: most traces have few, and a search among few is faster than a hash.
#[derive(Debug)]
struct Places(Vec<(Place, usize)>);

impl Places {
    /// Leaves of spans at one place the first, and gives back where each is now.
    fn of_distinct(spans: &mut Vec<&Span>) -> Self {
        let mut places: Vec<_> = spans.iter().enumerate().map(|(at, span)| (Place::of(span), at)).collect();
        places.sort_unstable();
        places.dedup_by_key(|(place, _)| *place);
        if places.len() < spans.len() {
            let mut firsts: Vec<_> = places.iter_mut().map(|(_, at)| at).collect();
            firsts.sort_unstable();
            let all = std::mem::take(spans);
            for (next, at) in firsts.into_iter().enumerate() {
                spans.push(all[*at]);
                *at = next;
            }
        }
        Self(places)
    }

    fn get(&self, place: Place) -> Option<usize> {
        let found = self.0.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(self.0[found].1)
    }
}

fn parent_of(span: &Span, places: &Places, spans: &[&Span]) -> Option<usize> {
    let client_side = |id| places.get(Place { id, server: false });
    let server_side = |id| places.get(Place { id, server: true });
    // The server's half of a shared id names the client's parent, or itself.
    if span.kind == SpanKind::Server
        && let Some(client) = client_side(span.id)
    {
        return Some(client);
    }
    let id = span.parent.filter(|id| *id != span.id)?;
    match (client_side(id), server_side(id)) {
        // Of a shared id's two halves, the one in the same service; work is below the server as a rule.
        (Some(client), Some(server)) => {
            let of_client = spans[client].service == span.service && spans[server].service != span.service;
            Some(if of_client { client } else { server })
        }
        (one, other) => one.or(other),
    }
}

/// Whether `span` is what `parent` waited for in another process. A consumer works when it gets to it.
fn is_answer(span: &Span, parent: &Span) -> bool {
    span.kind != SpanKind::Consumer
        && parent.kind != SpanKind::Producer
        && (span.kind == SpanKind::Server || span.service != parent.service)
}

/// Cuts each cycle above its first span, which becomes an orphan.
fn cut_cycles(parents: &mut [Option<usize>], orphans: &mut Vec<usize>) {
    const DONE: usize = usize::MAX;
    let mut walk_of = vec![0; parents.len()];
    for start in 0..parents.len() {
        let walk = start + 1;
        let mut at = Some(start);
        while let Some(node) = at.filter(|node| walk_of[*node] == 0) {
            walk_of[node] = walk;
            at = parents[node];
        }
        if let Some(met) = at.filter(|node| walk_of[*node] == walk) {
            let (mut first, mut next) = (met, parents[met]);
            while let Some(node) = next.filter(|node| *node != met) {
                first = first.min(node);
                next = parents[node];
            }
            parents[first] = None;
            orphans.push(first);
        }
        let mut at = Some(start);
        while let Some(node) = at.filter(|node| walk_of[*node] == walk) {
            walk_of[node] = DONE;
            at = parents[node];
        }
    }
}

/// A total order of spans, so that nothing hangs on the order of arrival. Of two with one id the scenario process's
/// own comes first (nobody else can stand in for it), then the earlier, then the longer one.
fn canonical(a: &Span, b: &Span) -> Ordering {
    let key = |span: &Span| (span.load.is_none(), span.start_ns, u64::MAX - span.end_ns, span.id, span.kind);
    let rest = |span: &Span| (span.parent, span.error, span.trace);
    key(a)
        .cmp(&key(b))
        .then_with(|| a.service.cmp(&b.service))
        .then_with(|| a.name.cmp(&b.name))
        .then_with(|| rest(a).cmp(&rest(b)))
        .then_with(|| match (&a.load, &b.load) {
            (Some(a), Some(b)) => canonical_load(a, b),
            _ => Ordering::Equal,
        })
}

fn canonical_load(a: &LoadSpan, b: &LoadSpan) -> Ordering {
    fn role(load: &LoadSpan) -> (u8, Option<(StepKind, &str)>) {
        match &load.role {
            LoadRole::Iteration => (0, None),
            LoadRole::Step { kind, name } => (1, Some((*kind, name))),
            LoadRole::Author => (2, None),
        }
    }
    (role(a), &a.scenario, a.phase, a.expected)
        .cmp(&(role(b), &b.scenario, b.phase, b.expected))
        .then_with(|| a.weight.total_cmp(&b.weight))
}
