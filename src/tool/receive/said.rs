//! What spans of the scenario process say of themselves.

use std::sync::Arc;

use crate::model::semconv;
use crate::model::span::{LoadRole, LoadSpan};
use crate::model::stats::{Phase, StepKind};

use super::decode::Names;
use super::view::Scalar;

/// How many different things that spans of the scenario process say of themselves are remembered to be shared.
const SAYINGS: usize = 16;

/// What a span of the scenario process says of itself, as far as it has been read. Of attributes that come twice, the
/// first counts.
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    role: Option<Scalar<'a>>,
    step: Option<Scalar<'a>>,
    step_kind: Option<Scalar<'a>>,
    scenario: Option<Scalar<'a>>,
    phase: Option<Scalar<'a>>,
    weight: Option<Scalar<'a>>,
    expected: Option<Scalar<'a>>,
}

impl<'a> Said<'a> {
    pub(super) fn hear(&mut self, key: &str, value: Scalar<'a>) {
        let heard = match key {
            semconv::ROLE => &mut self.role,
            semconv::STEP => &mut self.step,
            semconv::STEP_KIND => &mut self.step_kind,
            semconv::SCENARIO => &mut self.scenario,
            semconv::PHASE => &mut self.phase,
            semconv::WEIGHT => &mut self.weight,
            semconv::EXPECTED => &mut self.expected,
            _ => return,
        };
        heard.get_or_insert(value);
    }

    /// What says nothing of its role is the author's own span.
    fn meant(&self) -> Meant<'a> {
        let text = |value: Option<Scalar<'a>>| match value {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        };
        let step = text(self.step).zip(text(self.step_kind).and_then(step_kind));
        let role = match (text(self.role), step) {
            (Some("iteration"), _) => Role::Iteration,
            (Some("step") | None, Some((name, kind))) => Role::Step(kind, name),
            _ => Role::Author,
        };
        let weight = match self.weight {
            Some(Scalar::Double(weight)) if weight.is_finite() && weight >= 0.0 => weight,
            _ => 0.0,
        };
        Meant {
            role,
            scenario: text(self.scenario).unwrap_or_default(),
            phase: text(self.phase).and_then(Phase::named).unwrap_or(Phase::Load),
            weight,
            expected: self.expected == Some(Scalar::Bool(true)),
        }
    }
}

/// A [`LoadSpan`] whose texts stand where they were received.
#[derive(Debug)]
struct Meant<'a> {
    role: Role<'a>,
    scenario: &'a str,
    phase: Phase,
    weight: f64,
    expected: bool,
}

#[derive(Debug)]
enum Role<'a> {
    Iteration,
    Step(StepKind, &'a str),
    Author,
}

impl Meant<'_> {
    fn is(&self, load: &LoadSpan) -> bool {
        let same_role = match (&self.role, &load.role) {
            (Role::Iteration, LoadRole::Iteration) | (Role::Author, LoadRole::Author) => true,
            (Role::Step(kind, name), LoadRole::Step { kind: known, name: known_name }) => {
                kind == known && *name == &**known_name
            }
            _ => false,
        };
        same_role
            && self.scenario == &*load.scenario
            && (self.phase, self.expected) == (load.phase, load.expected)
            && self.weight.to_bits() == load.weight.to_bits()
    }

    fn load_span(&self, names: &mut Names) -> LoadSpan {
        LoadSpan {
            role: match self.role {
                Role::Iteration => LoadRole::Iteration,
                Role::Step(kind, name) => LoadRole::Step { kind, name: names.share(name) },
                Role::Author => LoadRole::Author,
            },
            scenario: names.share(self.scenario),
            phase: self.phase,
            weight: self.weight,
            expected: self.expected,
        }
    }
}

/// What the last spans of the scenario process said of themselves. The next ones say the same, as a rule.
#[derive(Debug, Default)]
pub(super) struct Sayings {
    recent: [Option<Arc<LoadSpan>>; SAYINGS],
    next: usize,
}

impl Sayings {
    pub(super) fn share(&mut self, said: &Said<'_>, names: &mut Names) -> Arc<LoadSpan> {
        let meant = said.meant();
        if let Some(known) = self.recent.iter().flatten().find(|known| meant.is(known)) {
            return known.clone();
        }
        let new = Arc::new(meant.load_span(names));
        self.recent[self.next] = Some(new.clone());
        self.next = (self.next + 1) % SAYINGS;
        new
    }
}

fn step_kind(text: &str) -> Option<StepKind> {
    match text {
        "request" => Some(StepKind::Request),
        "step" => Some(StepKind::Step),
        _ => None,
    }
}
