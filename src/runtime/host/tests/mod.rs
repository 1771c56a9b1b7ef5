//! Whole runs of scenarios in this process against a server that counts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::run::execute;
use super::server::Server;
use crate::model::event::{Event, Failure, FailureKind, Finished, Warning};
use crate::model::http::HttpPlan;
use crate::model::id::{RunId, SpanId, TraceId, TracePrefix};
use crate::model::load::LoadModel;
use crate::model::plan::{ReferencePlan, RunPlan, TracePolicy};
use crate::model::secret::Secrets;
use crate::model::stats::{Phase, RunStats, ScenarioStats, StepKey, StepKind};
use crate::prelude::*;
use crate::runtime::data::Seats;
use crate::runtime::engine::StopFlag;
use crate::runtime::http::{Site, Target};
use crate::runtime::scenario::{Current, RunFacts, VuParts};
use crate::runtime::telemetry::buffer::{self, SpanSource};
use crate::runtime::telemetry::tracer::{IterationTrace, Tracer, TracerParts, traceparent};

mod aborts;
mod answering;
mod arrivals;
mod batches;
mod blocking;
mod cookies;
mod data;
mod figures;
mod mixes;
mod pitfalls;
mod requests;
mod runs;
mod sites;
mod transfers;
mod uploads;
mod users;
mod vus;

struct Outcome {
    stats: RunStats,
    end: Result<Finished, Failure>,
    phases: Vec<Phase>,
    warnings: Vec<Warning>,
}

impl Outcome {
    fn load(&self) -> &ScenarioStats {
        self.stats.load.values().next().expect("a scenario that ran")
    }

    fn step(&self, kind: StepKind, name: &str) -> &crate::model::stats::StepStats {
        &self.load().steps[&StepKey { kind, name: name.into() }]
    }

    fn failure(&self) -> &Failure {
        self.end.as_ref().expect_err("a run that fails")
    }
}

fn plan(server: Option<&Server>, scenarios: &[Scenario]) -> RunPlan {
    RunPlan {
        run: RunId::new(1, 1),
        trace_prefix: TracePrefix::new(1),
        scenarios: scenarios.iter().map(|scenario| scenario.name.clone()).collect(),
        base_url: server.map(Server::url),
        env: BTreeMap::from([("COLOUR".to_owned(), "red".to_owned())]),
        secrets: Secrets::default(),
        http: HttpPlan::default(),
        overrides: BTreeMap::new(),
        reference: Some(ReferencePlan { iterations: 0, ..ReferencePlan::default() }),
        trace: TracePolicy::Off,
        otlp_endpoint: None,
        resource: BTreeMap::new(),
        seed: None,
        workers: Some(2),
    }
}

fn run_with(scenarios: Vec<Scenario>, plan: RunPlan, stop: &StopFlag) -> Outcome {
    let outcome = run_with_warnings(scenarios, plan, stop);
    assert_eq!(outcome.warnings, []);
    outcome
}

fn run_with_warnings(scenarios: Vec<Scenario>, plan: RunPlan, stop: &StopFlag) -> Outcome {
    let mut outcome = Outcome {
        stats: RunStats::default(),
        end: Ok(Finished::default()),
        phases: vec![],
        warnings: vec![],
    };
    let mut ended = 0;
    execute(scenarios, plan, stop, &mut |event| match event {
        Event::Interval(interval) => outcome.stats.add(&interval),
        Event::Aborted(aborted) => outcome.stats.aborted.push(aborted),
        Event::PhaseStarted { phase, .. } => outcome.phases.push(phase),
        Event::Finished(finished) => (outcome.end, ended) = (Ok(finished), ended + 1),
        Event::Failed(failure) => (outcome.end, ended) = (Err(failure), ended + 1),
        Event::Warning(warning) => outcome.warnings.push(warning),
        Event::Listing(_) => panic!("nobody asked for a listing"),
    });
    assert_eq!(ended, 1, "a run ends once");
    outcome
}

fn run(server: &Server, scenario: Scenario) -> Outcome {
    let scenarios = vec![scenario];
    let plan = plan(Some(server), &scenarios);
    run_with(scenarios, plan, &StopFlag::default())
}

async fn two_requests(vu: &Vu) -> Result {
    vu.get("/users/{id}").path("id", vu.id()).query("q", 1).send().await?;
    vu.post("/status/{code}")
        .path("code", if vu.iteration().is_multiple_of(2) { 201 } else { 404 })
        .body("x")
        .send()
        .await?;
    Ok(())
}
