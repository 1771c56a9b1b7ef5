//! Operations: what time on a critical path is charged to, and the bounded table that numbers them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::span::{Span, SpanKind};

/// Distinct paths that are told apart. A service that puts ids into span names meets this limit; what comes after
/// it is charged to [`OTHER`], so that memory stays bounded and sums stay whole.
const MAX_PATHS: usize = 100_000;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OpKind {
    Span(SpanKind),
    Pseudo,
}

impl OpKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Span(SpanKind::Internal) => "internal",
            Self::Span(SpanKind::Server) => "server",
            Self::Span(SpanKind::Client) => "client",
            Self::Span(SpanKind::Producer) => "producer",
            Self::Span(SpanKind::Consumer) => "consumer",
            Self::Pseudo => "pseudo",
        }
    }
}

/// Operations that no span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pseudo {
    /// A request's own time around its server span: connecting, the network, the accept queue, the way back.
    ClientToServer,
    /// Time that nothing tells more of: a request to a server from which no span came, or a timed step's own
    /// time in the scenario.
    Uninstrumented,
    /// Operations beyond a limit of this tool.
    Other,
}

impl Pseudo {
    const ALL: [Self; 3] = [Self::ClientToServer, Self::Uninstrumented, Self::Other];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClientToServer => "(client → server)",
            Self::Uninstrumented => "(uninstrumented)",
            Self::Other => "(other)",
        }
    }
}

/// What a reader sees of an operation: its identity without the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label {
    /// `-` for pseudo-operations.
    pub(crate) service: Arc<str>,
    pub(crate) kind: OpKind,
    pub(crate) name: Arc<str>,
}

/// The number of a [`Label`] in its [`Operations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LabelId(u32);

/// An operation: (service, span kind, name) and the same of each span between it and the root of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpId(u32);

/// [`Pseudo::Other`], at no path.
pub(super) const OTHER: OpId = OpId(0);

#[derive(Debug)]
struct Node {
    #[cfg(test)]
    parent: Option<OpId>,
    label: LabelId,
}

/// All operations seen so far, as a tree of labels. `None` as a parent means the root of a step.
#[derive(Debug)]
pub(crate) struct Operations {
    labels: Vec<Label>,
    label_ids: HashMap<Label, LabelId>,
    nodes: Vec<Node>,
    node_ids: HashMap<(Option<OpId>, LabelId), OpId>,
}

impl Default for Operations {
    fn default() -> Self {
        let mut new = Self {
            labels: Vec::new(),
            label_ids: HashMap::new(),
            nodes: Vec::new(),
            node_ids: HashMap::new(),
        };
        for pseudo in Pseudo::ALL {
            new.label_id(Label { service: "-".into(), kind: OpKind::Pseudo, name: pseudo.name().into() });
        }
        let other = new.node(None, LabelId(Pseudo::Other as u32));
        debug_assert_eq!(other, OTHER);
        new
    }
}

impl Operations {
    /// The operation that `span` stands for, below `parent`. Nothing is told apart below [`OTHER`].
    pub(super) fn of_span(&mut self, parent: Option<OpId>, span: &Span) -> OpId {
        if parent == Some(OTHER) {
            return OTHER;
        }
        let label = self.label_id(Label {
            service: span.service.clone(),
            kind: OpKind::Span(span.kind),
            name: span.name.clone(),
        });
        self.node(parent, label)
    }

    pub(super) fn of_pseudo(&mut self, parent: Option<OpId>, pseudo: Pseudo) -> OpId {
        if parent == Some(OTHER) { OTHER } else { self.node(parent, LabelId(pseudo as u32)) }
    }

    fn label_id(&mut self, label: Label) -> LabelId {
        let next = LabelId(u32::try_from(self.labels.len()).expect("labels are fewer than MAX_PATHS + 4"));
        if let Some(known) = self.label_ids.get(&label) {
            return *known;
        }
        if self.nodes.len() >= MAX_PATHS {
            return LabelId(Pseudo::Other as u32);
        }
        self.labels.push(label.clone());
        self.label_ids.insert(label, next);
        next
    }

    fn node(&mut self, parent: Option<OpId>, label: LabelId) -> OpId {
        if let Some(known) = self.node_ids.get(&(parent, label)) {
            return *known;
        }
        if self.nodes.len() >= MAX_PATHS {
            return OTHER;
        }
        let next = OpId(u32::try_from(self.nodes.len()).expect("paths are at most MAX_PATHS"));
        self.nodes.push(Node {
            #[cfg(test)]
            parent,
            label,
        });
        self.node_ids.insert((parent, label), next);
        next
    }

    pub(super) fn label_of(&self, op: OpId) -> LabelId {
        self.nodes[op.0 as usize].label
    }

    pub(super) fn label(&self, label: LabelId) -> &Label {
        &self.labels[label.0 as usize]
    }

    pub(super) fn other_label(&self) -> LabelId {
        self.label_of(OTHER)
    }

    /// The labels from the step's root to the operation.
    #[cfg(test)]
    pub(crate) fn path(&self, op: OpId) -> Vec<&Label> {
        let mut path = Vec::new();
        let mut at = Some(op);
        while let Some(op) = at {
            let node = &self.nodes[op.0 as usize];
            path.push(self.label(node.label));
            at = node.parent;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::span;
    use super::*;

    #[test]
    fn the_same_span_at_another_path_is_another_operation_with_the_same_label() {
        let mut operations = Operations::default();
        let (a, b) = (span(1).named("a"), span(2).named("b"));
        let (at_a, at_b) = (operations.of_span(None, &a), operations.of_span(None, &b));
        let (ab, bb) = (operations.of_span(Some(at_a), &b), operations.of_span(Some(at_b), &b));
        assert_ne!(ab, bb);
        assert_eq!(operations.label_of(ab), operations.label_of(bb));
        assert_eq!(operations.of_span(Some(at_a), &b), ab);
        let names: Vec<_> = operations.path(ab).iter().map(|label| label.name.to_string()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn beyond_the_limit_new_operations_are_other_and_known_ones_stay() {
        let mut operations = Operations::default();
        let first = operations.of_span(None, &span(0).named("first"));
        for n in 0..MAX_PATHS {
            operations.of_span(None, &span(0).named(&n.to_string()));
        }
        let late = operations.of_span(None, &span(0).named("late"));
        assert_eq!(late, OTHER);
        assert_eq!(operations.of_span(Some(late), &span(0).named("first")), OTHER);
        assert_eq!(operations.of_span(None, &span(0).named("first")), first);
        assert!(operations.nodes.len() <= MAX_PATHS && operations.labels.len() <= MAX_PATHS + 3);
    }
}
