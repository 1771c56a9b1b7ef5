//! One run of a scenario binary: setup, reference, load, teardown, and what is told of them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::gate::Gate;
use super::observe::{Told, failing};
use super::preflight;
use super::users::ScenarioUsers;
use super::vitals::Vitals;
use crate::model::event::{Event, Failure, FailureKind, Finished, Warning};
use crate::model::health::Signs;
use crate::model::load::{LoadModel, Timing, timing};
use crate::model::plan::{ReferencePlan, RunPlan, ScenarioInfo, TracePolicy};
use crate::model::stats::{Phase, ScenarioStats};
use crate::runtime::data::Seats;
use crate::runtime::engine::schedule::{self, Grace};
use crate::runtime::engine::{self, Closed, Ended, PhasePlan, Slot, StopFlag};
use crate::runtime::http::{Files, Sites};
use crate::runtime::record::Recording;
use crate::runtime::scenario::user::{Shared, caught};
use crate::runtime::scenario::{Measures, RunFacts, Scenario, Vu, VuParts};
use crate::runtime::telemetry::export::{self, Export};
use crate::runtime::telemetry::tracer::{TracerParts, new_span_id};
use crate::runtime::telemetry::{author, resource};
use crate::sys::clock;

/// How long the export may take at the end, and after a stop from outside.
const FLUSH: Duration = Duration::from_secs(10);
const FLUSH_WHEN_STOPPED: Duration = Duration::from_secs(1);

/// Scenario names are unique within a binary.
pub(super) fn check_names(scenarios: &[Scenario]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match scenarios.iter().find(|scenario| !seen.insert(&scenario.name)) {
        Some(twice) => Err(format!(
            "two scenarios of this binary are called `{}`; give each a name of its own",
            twice.name
        )),
        None => Ok(()),
    }
}

/// Those that start after each other do so without going round in circles.
pub(super) fn check_order(scenarios: &[Scenario]) -> Result<(), String> {
    let order: Vec<_> = scenarios
        .iter()
        .map(|scenario| (scenario.name.as_str(), scenario.timing.start_after.as_deref()))
        .collect();
    timing::check_order(&order)
}

/// Carries the plan out and tells everything: the last event is a failure or the end.
pub(super) fn execute(
    scenarios: Vec<Scenario>,
    plan: RunPlan,
    stop: &StopFlag,
    tell: &mut impl FnMut(Event),
) {
    let prepared = check_names(&scenarios).and_then(|()| Prepared::new(scenarios, plan));
    match prepared {
        Ok(prepared) => prepared.run(stop, tell),
        Err(message) => tell(Event::Failed(Failure { kind: FailureKind::Configuration, message })),
    }
}

/// A plan that makes sense for these scenarios.
struct Prepared {
    scenarios: Vec<(Scenario, LoadModel)>,
    /// What there is to say before it begins.
    warnings: Vec<Warning>,
    plan: RunPlan,
    facts: Arc<RunFacts>,
}

/// A scenario that is set up.
struct Ready {
    scenario: Scenario,
    load: LoadModel,
    shared: Shared,
    /// Its place among the scenarios of the run.
    place: usize,
    recording: Arc<Recording>,
}

impl Prepared {
    fn new(scenarios: Vec<Scenario>, plan: RunPlan) -> Result<Self, String> {
        check_order(&scenarios)?;
        let (mut chosen, mut warnings) = (Vec::new(), Vec::new());
        let mut sites = Sites::new(&plan.http, plan.base_url.as_deref())?;
        for mut scenario in scenarios.into_iter().filter(|scenario| plan.scenarios.contains(&scenario.name)) {
            let own = scenario.info()?.load;
            let over = plan.overrides.get(&scenario.name).or_else(|| plan.overrides.get("*"));
            let load = over
                .map_or_else(|| Ok(own.clone()), |over| over.apply(&own))
                .and_then(|load| scenario.timing.check(&load).map(|()| load))
                .map_err(|why| format!("scenario `{}`: {why}", scenario.name))?;
            if let Some(absent) = scenario.timing.start_after.take_if(|other| !plan.scenarios.contains(other))
            {
                let message = format!(
                    "{} starts after {absent}, which does not run this time: it does not wait for it",
                    scenario.name
                );
                warnings.push(Warning::new("start-after", message));
            }
            let (site, warning) = sites.of(&scenario.name, &scenario.requests.http)?;
            scenario.site = site;
            warnings.extend(warning);
            chosen.push((scenario, load));
        }
        let users: Vec<_> = chosen.iter().map(|(it, load)| it.users_of_data(load.vus_max())).collect();
        let facts = RunFacts {
            env: plan.env.clone(),
            // Milliseconds since 1970 leave 22 bits: a process would have to draw four million a millisecond to meet
            // the numbers of one that starts later.
            unique: AtomicU64::new((clock::unix_nanos() / 1_000_000) << 22),
            untraced: (plan.trace != TracePolicy::Off).then_some(plan.trace_prefix),
            epoch: clock::now(),
            misconfiguration: OnceLock::new(),
            refused_redirect: OnceLock::new(),
            seed: plan.seed(),
            seats: Seats::assign(&users)?,
            files: Arc::default(),
        };
        Ok(Self { scenarios: chosen, warnings, plan, facts: Arc::new(facts) })
    }

    fn run(self, stop: &StopFlag, tell: &mut impl FnMut(Event)) {
        let Self { scenarios, warnings, plan, facts } = self;
        let secrets = plan.secrets.clone();
        let tell = &mut |mut event: Event| {
            secrets.mask_event(&mut event);
            tell(event);
        };
        let users = scenarios.iter().map(|(_, load)| u64::from(load.vus_max())).sum();
        let sources = scenarios.iter().map(|(scenario, _)| scenario.site.sources()).min().unwrap_or(1);
        for doubt in preflight::check(preflight::Wanted { users, sources }) {
            tell(Event::Warning(doubt));
        }
        warnings.into_iter().for_each(|warning| tell(Event::Warning(warning)));
        let attributes = resource::attributes(&plan.run, &plan.resource);
        let export = match plan
            .otlp_endpoint
            .as_deref()
            .map(|endpoint| Export::start(endpoint, &attributes, plan.secrets.clone()))
            .transpose()
        {
            Ok(export) => export,
            Err(message) => return tell(failed(message)),
        };
        let run_span = (plan.trace_prefix.trace(fastrand::u64(1..)), new_span_id());
        let tracing = export.as_ref().filter(|_| plan.trace != TracePolicy::Off).map(|export| TracerParts {
            policy: plan.trace,
            prefix: plan.trace_prefix,
            sink: export.sink().clone(),
            run_span,
        });
        if let Some(parts) = &tracing
            && !author::install(parts.sink.clone())
        {
            let advice = "this binary has set a tracing subscriber of its own, which is kept; add \
                          `loadtest::tracing_layer()` to it to see its spans in the traces";
            tell(Event::Warning(Warning::new("tracing-subscriber", advice)));
        }
        let started_ns = clock::unix_nanos();
        let aborted = StopFlag::default();
        let infos: Vec<ScenarioInfo> =
            scenarios.iter().filter_map(|(scenario, _)| scenario.info().ok()).collect();
        let mut run = Run {
            plan: &plan,
            facts: &facts,
            tracing,
            export: export.as_ref(),
            stop,
            tell,
            signs: Signs::default(),
            gate: Gate::new(&infos, aborted.clone()),
            aborted: aborted.clone(),
        };
        let ended = match run.set_up(scenarios) {
            Ok(ready) => {
                let ended = run.phases(&ready);
                let torn_down = run.tear_down(ready);
                if ended == Ended::Whole { torn_down } else { ended }
            }
            Err(message) => Ended::Failed(message),
        };
        if let Some(message) = facts.refused_redirect.get() {
            (run.tell)(Event::Warning(Warning::new("redirect-refused", message)));
        }
        let signs = std::mem::take(&mut run.signs);
        let traced = run.tracing.is_some();
        drop(run);
        // A threshold that ends the run does no less than its whole work.
        let interrupted = ended == Ended::Stopped && !aborted.is_set();
        let (spans_exported, spans_dropped, metrics_failed) = export.map_or((0, 0, 0), |export| {
            if traced {
                export.sink().author(export::run_span(run_span, started_ns, clock::unix_nanos()));
            }
            export.finish(if interrupted { FLUSH_WHEN_STOPPED } else { FLUSH })
        });
        tell(match (facts.misconfiguration.get(), ended) {
            (Some(message), _) => {
                Event::Failed(Failure { kind: FailureKind::Configuration, message: message.clone() })
            }
            (None, Ended::Failed(message)) => failed(message),
            (None, _) => Event::Finished(Finished {
                interrupted,
                spans_exported,
                spans_dropped,
                metrics_failed,
                signs,
            }),
        });
    }
}

fn failed(message: String) -> Event {
    Event::Failed(Failure { kind: FailureKind::Run, message })
}

struct Run<'r, T> {
    plan: &'r RunPlan,
    facts: &'r Arc<RunFacts>,
    tracing: Option<TracerParts>,
    export: Option<&'r Export>,
    stop: &'r StopFlag,
    tell: &'r mut T,
    /// Of the load; of the reference, which threads it left behind.
    signs: Signs,
    gate: Gate,
    /// Set when the gate is closed.
    aborted: StopFlag,
}

impl<T: FnMut(Event)> Run<'_, T> {
    fn set_up(&mut self, scenarios: Vec<(Scenario, LoadModel)>) -> Result<Vec<Ready>, String> {
        let runtime = small_runtime()?;
        let mut ready = Vec::new();
        for (place, (scenario, load)) in scenarios.into_iter().enumerate() {
            let vu = Vu::new(VuParts {
                id: 0,
                slot: place,
                scenario: place,
                run: self.facts.clone(),
                requests: Arc::new(scenario.requests.clone()),
                site: scenario.site.clone(),
                env: Arc::new(scenario.env.clone()),
                shard: None,
                tracer: None,
                files: Rc::new(Files::new(self.facts.files.clone())),
            });
            let shared = runtime
                .block_on(caught(scenario.flow.setup(&vu)))
                .map_err(|why| format!("scenario `{}`: the setup failed: {why}", scenario.name))?;
            let info = scenario.info()?;
            let Measures { tags, max_names, .. } = &scenario.measures;
            let recording = Arc::new(Recording::new(&info, tags.clone(), *max_names));
            ready.push(Ready { scenario, load, shared, place, recording });
        }
        Ok(ready)
    }

    fn phases(&mut self, ready: &[Ready]) -> Ended {
        for one in ready {
            let plan = self.plan.reference.unwrap_or(one.scenario.reference);
            if plan.iterations > 0 {
                let ended = self.reference(one, plan);
                if ended != Ended::Whole {
                    return ended;
                }
            }
        }
        let most = ready.iter().map(|one| one.load.vus_max() as usize).sum::<usize>().max(1);
        let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let slots: Vec<_> =
            ready.iter().map(|one| (one, one.load.clone(), one.scenario.timing.clone())).collect();
        self.phase(Phase::Load, slots, self.plan.workers.unwrap_or_else(cores).clamp(1, most)).0
    }

    /// One user alone, for the unloaded figures.
    fn reference(&mut self, one: &Ready, plan: ReferencePlan) -> Ended {
        let iterations = u64::from(plan.iterations);
        let load = LoadModel::IterationsPerVu { vus: 1, iterations, max_duration: plan.at_most };
        let (ended, stats) = self.phase(Phase::Reference, vec![(one, load, Timing::default())], 1);
        match (ended, failing(&stats)) {
            (Ended::Whole, Some(why)) => Ended::Failed(format!(
                "scenario `{}`: {why}. What fails alone is not put under load; without the reference iterations \
                 (`.reference(0)`, `--no-reference`) it would be",
                one.scenario.name
            )),
            (ended, _) => ended,
        }
    }

    /// How it ended, and what was measured of it, where it is the reference.
    fn phase(
        &mut self,
        phase: Phase,
        slots: Vec<(&Ready, LoadModel, Timing)>,
        workers: usize,
    ) -> (Ended, ScenarioStats) {
        let names: Arc<[Arc<str>]> =
            slots.iter().map(|(one, ..)| one.scenario.name.as_str().into()).collect();
        let scenarios: Vec<String> = slots.iter().map(|(one, ..)| one.scenario.name.clone()).collect();
        let recordings = slots.iter().map(|(one, ..)| one.recording.clone()).collect();
        let seed = self.plan.seed();
        let slots = slots.into_iter().map(|(one, load, timing)| Slot {
            name: one.scenario.name.clone(),
            load,
            grace: grace(&one.scenario),
            timing,
            seed: schedule::seed_of(seed, &one.scenario.name),
            users: Arc::new(ScenarioUsers {
                flow: one.scenario.flow.clone(),
                shared: one.shared.clone(),
                facts: self.facts.clone(),
                env: Arc::new(one.scenario.env.clone()),
                requests: Arc::new(one.scenario.requests.clone()),
                site: one.scenario.site.clone(),
                tracing: self.tracing.clone(),
                phase,
                names: names.clone(),
                place: one.place,
                recording: one.recording.clone(),
            }),
        });
        let plan = PhasePlan { phase, slots: slots.collect(), workers };
        let (facts, stop) = (self.facts, self.stop);
        let aborted = &self.aborted;
        let mut told = Told {
            phase,
            scenarios,
            export: self.export,
            plan: self.plan,
            recordings,
            gate: &mut self.gate,
            alone: ScenarioStats::default(),
            tell: &mut *self.tell,
            vitals: None,
        };
        let stop = || stop.is_set() || aborted.is_set() || facts.misconfiguration.get().is_some();
        let Closed { ended, workers, blocked } = engine::run(&plan, &stop, &mut told);
        let Told { alone, vitals, .. } = told;
        // A thread that the reference leaves behind is there beside the load.
        let blocked_workers = self.signs.blocked_workers + blocked;
        self.signs.blocked_workers = blocked_workers;
        if phase == Phase::Load {
            let of_process = vitals.map(Vitals::end).unwrap_or_default();
            self.signs = Signs { workers, blocked_workers, ..of_process };
        }
        (ended, alone)
    }

    fn tear_down(&mut self, ready: Vec<Ready>) -> Ended {
        let runtime = match small_runtime() {
            Ok(runtime) => runtime,
            Err(message) => return Ended::Failed(message),
        };
        for Ready { scenario, shared, .. } in ready {
            if let Err(why) = runtime.block_on(caught(scenario.flow.teardown(shared))) {
                let message = format!("scenario `{}`: the teardown failed: {why}", scenario.name);
                (self.tell)(Event::Warning(Warning::new("teardown", message)));
            }
        }
        Ended::Whole
    }
}

fn grace(scenario: &Scenario) -> Grace {
    Grace { stop: scenario.graceful_stop, ramp_down: scenario.graceful_ramp_down }
}

/// For the parts that are in no figure.
fn small_runtime() -> Result<tokio::runtime::LocalRuntime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| format!("cannot start a runtime: {error}"))
}
