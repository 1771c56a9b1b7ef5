//! The users of one scenario as the engine asks for them: seated on a worker thread, then made one by one.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::model::stats::Phase;
use crate::runtime::engine::{Seat, Seated, User, Users};
use crate::runtime::http::{Files, RequestDefaults, Site};
use crate::runtime::record::Recording;
use crate::runtime::scenario::user::{Flow, ScenarioUser, Shared};
use crate::runtime::scenario::{RunFacts, VuParts};
use crate::runtime::telemetry::tracer::{Tracer, TracerParts};
use crate::sys::clock;

/// The users of one scenario in one phase.
pub(super) struct ScenarioUsers {
    pub(super) flow: Arc<dyn Flow>,
    pub(super) shared: Shared,
    pub(super) facts: Arc<RunFacts>,
    pub(super) env: Arc<BTreeMap<String, String>>,
    pub(super) requests: Arc<RequestDefaults>,
    pub(super) site: Arc<Site>,
    pub(super) tracing: Option<TracerParts>,
    pub(super) phase: Phase,
    pub(super) names: Arc<[Arc<str>]>,
    pub(super) place: usize,
    pub(super) recording: Arc<Recording>,
}

impl Users for ScenarioUsers {
    fn seat(self: Arc<Self>, seat: Seat) -> Box<dyn Seated> {
        let tracer = self.tracing.clone().and_then(|parts| {
            let shares = seat.workers * self.names.len();
            Tracer::new(parts, self.phase, &self.names[seat.slot], shares, clock::now())
        });
        let files = Rc::new(Files::new(self.facts.files.clone()));
        Box::new(SeatedUsers { users: self, seat, tracer: tracer.map(Rc::new), files })
    }

    fn recording(&self) -> Arc<Recording> {
        self.recording.clone()
    }
}

struct SeatedUsers {
    users: Arc<ScenarioUsers>,
    seat: Seat,
    tracer: Option<Rc<Tracer>>,
    files: Rc<Files>,
}

impl Seated for SeatedUsers {
    fn make(&self, id: u64) -> Box<dyn User> {
        let parts = VuParts {
            id,
            slot: self.seat.slot,
            scenario: self.users.place,
            run: self.users.facts.clone(),
            env: self.users.env.clone(),
            requests: self.users.requests.clone(),
            site: self.users.site.clone(),
            shard: Some(self.seat.shard.clone()),
            tracer: self.tracer.clone(),
            files: self.files.clone(),
        };
        Box::new(ScenarioUser::new(self.users.flow.clone(), self.users.shared.clone(), parts))
    }
}
