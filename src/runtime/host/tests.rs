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
use crate::model::id::{RunId, SpanId, TraceId, TracePrefix};
use crate::model::load::LoadModel;
use crate::model::plan::{ReferencePlan, RunPlan, TracePolicy};
use crate::model::secret::Secrets;
use crate::model::stats::{Phase, RunStats, ScenarioStats, StepKey, StepKind};
use crate::prelude::*;
use crate::runtime::engine::StopFlag;
use crate::runtime::http::Target;
use crate::runtime::scenario::{Current, RunFacts, VuParts};
use crate::runtime::telemetry::span::{Item, SpanRecord, SpanSink, What};
use crate::runtime::telemetry::tracer::{Tracer, TracerParts, traceparent};

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
        overrides: BTreeMap::new(),
        reference: Some(ReferencePlan { iterations: 0, ..ReferencePlan::default() }),
        trace: TracePolicy::Off,
        otlp_endpoint: None,
        resource: BTreeMap::new(),
        workers: Some(2),
        seed: 1,
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

#[test]
fn every_executor_counts_exactly_what_the_server_saw() {
    for (load, iterations) in [
        (LoadModel::SharedIterations { vus: 7, iterations: 500, max_duration: secs(60) }, Some(500)),
        (LoadModel::IterationsPerVu { vus: 5, iterations: 40, max_duration: secs(60) }, Some(200)),
        (LoadModel::ConstantVus { vus: 4, duration: millis(1200) }, None),
        (LoadModel::RampingVus { stages: vec![stage(millis(600), 6), stage(millis(600), 0)] }, None),
    ] {
        let server = Server::start();
        let mut scenario = scenario("two", two_requests);
        scenario.load = load.clone();
        let outcome = run(&server, scenario);
        let (seen, stats) = (server.seen(), outcome.load());
        assert!(!outcome.end.as_ref().unwrap().interrupted);
        assert_eq!(stats.interrupted_iterations, 0, "{load:?}");
        if let Some(iterations) = iterations {
            assert_eq!(stats.iterations, iterations, "{load:?}");
        }
        assert!(stats.iterations > 0);
        let requests = stats.requests();
        assert_eq!(requests.count, seen.requests, "{load:?}");
        assert_eq!(requests.count, stats.iterations * 2, "{load:?}");
        assert_eq!(requests.status, seen.status, "{load:?}");
        assert_eq!(stats.vus_max, load.vus_max(), "{load:?}");
        let get = outcome.step(StepKind::Request, "GET /users/{id}");
        assert_eq!((get.count, get.latency.count(), get.errors), (stats.iterations, stats.iterations, 0));
        let post = outcome.step(StepKind::Request, "POST /status/{code}");
        assert_eq!(post.errors, post.status.get(&404).copied().unwrap_or(0));
        assert_eq!(post.latency.count(), post.status[&201]);
        assert_eq!(post.bytes_sent, post.count);
    }
}

#[test]
fn users_keep_their_connection_and_share_none() {
    let server = Server::start();
    run(&server, scenario("two", two_requests).iterations_per_vu(6, 20));
    assert_eq!(server.seen().connections, 6);
}

#[test]
fn errors_and_panics_are_counted_by_message_and_do_not_end_the_loop() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        match vu.iteration() % 3 {
            0 => Err("no luck")?,
            1 => panic!("broken at {}", vu.iteration()),
            _ => drop(vu.get("/").send().await?),
        }
        Ok(())
    };
    let outcome = run(&server, scenario("bad", flow).iterations_per_vu(1, 9));
    let stats = outcome.load();
    assert_eq!((stats.iterations, stats.failed_iterations, stats.panics), (9, 6, 3));
    assert_eq!(stats.errors.messages[0], ("no luck".to_owned(), 3));
    assert!(stats.errors.messages.iter().any(|(message, _)| message.ends_with("broken at 4")));
    assert!(stats.errors.messages[1].0.starts_with("panicked at src/runtime/host/tests.rs:"));
    assert_eq!(server.seen().requests, 3);
}

#[test]
fn what_the_end_cuts_off_is_counted_and_its_latency_is_a_lower_bound() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 30_000).send().await?;
        Ok(())
    };
    let outcome =
        run(&server, scenario("slow", flow).constant_vus(3, millis(100)).graceful_stop(millis(100)));
    let stats = outcome.load();
    assert_eq!((stats.iterations, stats.interrupted_iterations), (0, 3));
    let step = outcome.step(StepKind::Request, "GET /delay/{ms}");
    assert_eq!((step.count, step.interrupted, step.latency.censored_count()), (0, 3, 3));
    assert!(step.latency.percentile(50.0).unwrap().at_least);
    assert_eq!(server.seen().requests, 3);
}

#[test]
fn a_timeout_is_an_error_whose_latency_is_a_lower_bound() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let error = vu.get("/delay/{ms}").path("ms", 30_000).timeout(millis(50)).send().await.unwrap_err();
        vu.check("it is a timeout", error.is_timeout() && error.is_transport());
        Err(error)
    };
    let outcome = run(&server, scenario("late", flow).iterations_per_vu(1, 2));
    let step = outcome.step(StepKind::Request, "GET /delay/{ms}");
    assert_eq!(step.error_types, BTreeMap::from([("timeout".to_owned(), 2)]));
    assert_eq!((step.count, step.errors, step.latency.censored_count()), (2, 2, 2));
    assert_eq!(outcome.load().checks["it is a timeout"].passes, 2);
    assert_eq!(outcome.load().errors.commonest(), Some("GET /delay/{ms}: no whole response within 50ms"));
}

#[test]
fn each_failure_of_a_transfer_has_its_class() {
    for (path, class) in [("/drop", "reset"), ("/short", "body")] {
        let server = Server::start();
        let flow = async move |vu: &Vu| -> Result {
            vu.get(path).send().await?;
            Ok(())
        };
        let outcome = run(&server, scenario("bad", flow).iterations_per_vu(1, 3));
        let step = outcome.step(StepKind::Request, &format!("GET {path}"));
        assert_eq!(step.error_types, BTreeMap::from([(class.to_owned(), 3)]), "{path}");
        assert_eq!((step.errors, step.failed, step.latency.count()), (3, 3, 0));
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start();
    let flow = async move |vu: &Vu| -> Result {
        vu.get(&format!("http://{unused}/")).name("refused").send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("refused", flow).iterations_per_vu(1, 1));
    let step = outcome.step(StepKind::Request, "refused");
    assert_eq!(step.error_types, BTreeMap::from([("connect_refused".to_owned(), 1)]));
}

#[test]
fn a_connection_that_the_server_closed_is_replaced_without_repeating_a_post() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.post("/close").body("once").send().await?;
        vu.sleep(millis(5)).await;
        Ok(())
    };
    let outcome = run(&server, scenario("closing", flow).iterations_per_vu(2, 10));
    let (seen, requests) = (server.seen(), outcome.load().requests());
    assert!(requests.count - requests.errors <= seen.requests && seen.requests <= requests.count);
    assert_eq!(seen.connections, seen.requests);
}

#[test]
fn a_redirect_is_followed_and_each_hop_is_a_request() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/moved").expected_status(200).send().await?.expect_status(200)?;
        Ok(())
    };
    let scenarios = vec![scenario("moving", flow).iterations_per_vu(2, 5)];
    let plan = RunPlan { trace: TracePolicy::All, ..plan(Some(&server), &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let (stats, seen) = (outcome.load(), server.seen());
    assert_eq!(seen.targets, BTreeMap::from([("/moved".to_owned(), 10), ("/".to_owned(), 10)]));
    let step = outcome.step(StepKind::Request, "GET /moved");
    assert_eq!((stats.failed_iterations, stats.requests().count, step.count), (0, 20, 20));
    assert_eq!((&step.status, step.latency.complete_count(), step.errors), (&seen.status, 20, 0));
    assert_eq!(step.bytes_received, 10 * ("moved".len() + "ok".len()) as u64);
    assert_eq!(seen.connections, 2);
    let distinct: BTreeSet<_> = seen.traceparents.iter().collect();
    assert_eq!((seen.traceparents.len(), distinct.len()), (20, 20));
}

#[test]
fn redirects_are_followed_ten_times_and_to_another_host_never() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let error = vu.get("/circle").send().await.unwrap_err();
        vu.check("no end", error.to_string() == "GET /circle: protocol");
        let response = vu.get("/away").send().await?.expect_status(302)?;
        vu.check("as it is", response.text()? == "moved" && response.header("location").is_some());
        Ok(())
    };
    let scenarios = vec![scenario("away", flow).iterations_per_vu(2, 3)];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let (circle, seen) = (outcome.step(StepKind::Request, "GET /circle"), server.seen());
    assert_eq!(seen.targets, BTreeMap::from([("/circle".to_owned(), 66), ("/away".to_owned(), 6)]));
    assert_eq!((circle.count, circle.status[&302], circle.error_types["protocol"]), (66, 60, 6));
    assert_eq!(outcome.step(StepKind::Request, "GET /away").status, BTreeMap::from([(302, 6)]));
    let checks = &outcome.load().checks;
    assert_eq!((checks["no end"].passes, checks["as it is"].passes), (6, 6));
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert_eq!(outcome.warnings[0].code, "redirect-refused");
    assert!(outcome.warnings[0].message.starts_with("`GET /away` was redirected to localhost, "));
}

#[test]
fn each_hop_of_a_traced_redirect_has_a_span_of_its_own() {
    let server = Server::start();
    let (sink, spans, _) = SpanSink::new();
    let parts = TracerParts {
        policy: TracePolicy::All,
        prefix: TracePrefix::new(1),
        sink,
        run_span: (TraceId(1), SpanId(1)),
    };
    let now = crate::sys::clock::now();
    let tracer = Rc::new(Tracer::new(parts, Phase::Load, &"s".into(), 1, now).unwrap());
    let facts = RunFacts {
        target: Target::new(Some(&server.url())).unwrap(),
        env: BTreeMap::new(),
        unique: AtomicU64::new(0),
        untraced: None,
        misconfiguration: OnceLock::new(),
        refused_redirect: OnceLock::new(),
    };
    let vu =
        Vu::new(VuParts { id: 1, slot: 0, run: facts.into(), shard: None, tracer: Some(tracer.clone()) });
    let trace = tracer.begin(1, 0, now);
    vu.swap_current(Current { trace: Some(Rc::new(trace.clone())), parent: None, group: None });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(vu.post("/moved").send()).unwrap();
    let mut headers = Vec::new();
    let mut told = Vec::new();
    for item in spans.try_iter() {
        let Item::Load(SpanRecord { id, parent, what: What::Request(request), .. }) = item else {
            panic!("only requests were made")
        };
        headers.push(traceparent(trace.trace, id, true));
        assert_eq!((parent, &*request.name), (Some(trace.root), "POST /moved"));
        told.push((request.method.to_string(), request.template, request.hop, request.status));
    }
    assert_eq!(
        told,
        [("POST".into(), Some("/moved".into()), 0, Some(302)), ("GET".into(), None, 1, Some(200))]
    );
    assert_eq!(server.seen().traceparents, headers);
}

#[test]
fn a_large_body_arrives_whole() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let response = vu.get("/big/{n}").path("n", 10_000_000).send().await?;
        vu.check("all of it", response.bytes().len() == 10_000_000);
        Ok(())
    };
    let outcome = run(&server, scenario("big", flow).iterations_per_vu(1, 2));
    assert_eq!(outcome.load().checks["all of it"].passes, 2);
    assert_eq!(outcome.load().requests().bytes_received, 20_000_000);
}

#[test]
fn setups_and_teardown_run_once_and_are_in_no_figure() {
    let server = Server::start();
    let torn_down = Arc::new(AtomicU64::new(0));
    let noted = torn_down.clone();
    let scenario = stateful("full")
        .setup(async |vu: &Vu| -> Result<String> { Ok(vu.get("/setup").send().await?.text()?.to_owned()) })
        .vu_setup(async |vu: &Vu, _: &String| -> Result<Rc<RefCell<u64>>> {
            vu.get("/user-setup").send().await?;
            Ok(Rc::default())
        })
        .teardown(async move |made: String| -> Result {
            noted.fetch_add(made.len() as u64, Ordering::Relaxed);
            Ok(())
        })
        .iteration(async |vu: &Vu, mine: &mut Rc<RefCell<u64>>, made: &String| -> Result {
            *mine.borrow_mut() += 1;
            vu.check("state stays with its user", *mine.borrow() == vu.iteration() + 1 && made == "ok");
            vu.get("/work").send().await?;
            Ok(())
        })
        .iterations_per_vu(3, 4);
    let scenarios = vec![scenario];
    let plan = RunPlan { trace: TracePolicy::All, ..plan(Some(&server), &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    // Nothing is exported, so no iteration is traced; setups say that they are not.
    let traceparents = server.seen().traceparents;
    assert!(traceparents.iter().all(|header| header.ends_with("-00")), "{traceparents:?}");
    assert!(traceparents.len() >= 4, "{traceparents:?}");
    let targets = server.seen().targets;
    assert_eq!((targets["/setup"], targets["/user-setup"], targets["/work"]), (1, 3, 12));
    assert_eq!(outcome.load().requests().count, 12);
    assert_eq!(outcome.load().checks["state stays with its user"].passes, 12);
    assert_eq!(torn_down.load(Ordering::Relaxed), 2);
}

#[test]
fn a_failed_setup_is_why_nothing_ran() {
    let server = Server::start();
    let setup = stateful("s").setup(async |_: &Vu| -> Result<()> { Err("no database")? });
    let outcome = run(&server, setup.iteration(async |_: &Vu, (): &mut (), (): &()| -> Result { Ok(()) }));
    assert_eq!(outcome.failure().kind, FailureKind::Run);
    assert_eq!(outcome.failure().message, "scenario `s`: the setup failed: no database");
    let user_setup = stateful("u")
        .setup(async |_: &Vu| -> Result<()> { Ok(()) })
        .vu_setup(async |_: &Vu, (): &()| -> Result<()> { panic!("no token") });
    let outcome =
        run(&server, user_setup.iteration(async |_: &Vu, (): &mut (), (): &()| -> Result { Ok(()) }));
    let message = &outcome.failure().message;
    assert!(
        message.starts_with("scenario `u`: the setup of a user failed: panicked at ")
            && message.ends_with("no token")
    );
}

#[test]
fn the_reference_phase_runs_alone_and_apart() {
    let server = Server::start();
    let scenarios = vec![scenario("two", two_requests).iterations_per_vu(4, 10)];
    let plan = RunPlan {
        reference: Some(ReferencePlan { iterations: 3, at_most: secs(3) }),
        ..plan(Some(&server), &scenarios)
    };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    assert_eq!(outcome.phases, [Phase::Reference, Phase::Load]);
    let reference = &outcome.stats.reference["two"];
    assert_eq!((reference.iterations, reference.vus_max, outcome.load().iterations), (3, 1, 40));
    assert_eq!(server.seen().requests, 2 * 43);
}

#[test]
fn a_relative_template_without_a_base_url_ends_the_run_as_misconfigured() {
    let scenarios = vec![scenario("two", two_requests).constant_vus(1, secs(60))];
    let plan = plan(None, &scenarios);
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    assert_eq!(outcome.failure().kind, FailureKind::Configuration);
    assert!(outcome.failure().message.contains("set base-url"), "{}", outcome.failure().message);
}

#[test]
fn a_stop_cuts_off_and_reports() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 60_000).send().await?;
        Ok(())
    };
    let scenarios = vec![scenario("slow", flow).constant_vus(2, secs(60))];
    let (plan, stop) = (plan(Some(&server), &scenarios), StopFlag::default());
    let flag = stop.clone();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        flag.set();
    });
    let outcome = run_with(scenarios, plan, &stop);
    waiting.join().unwrap();
    assert!(outcome.end.as_ref().unwrap().interrupted);
    assert_eq!(outcome.load().interrupted_iterations, 2);
}

#[test]
fn steps_nest_run_beside_each_other_and_time_what_is_inside() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let inner = vu.step("inner", async { Ok(vu.get("/a").send().await?.status()) });
        let beside = vu.step("beside", async { Ok(vu.get("/b").send().await?.status()) });
        let (a, b) = tokio::join!(vu.step("outer", inner), beside);
        vu.check("both", a? == 200 && b? == 200);
        vu.step::<(), _>("failing", async { Err("no")? }).await.unwrap_err();
        Ok(())
    };
    let outcome = run(&server, scenario("steps", flow).iterations_per_vu(2, 3));
    for (name, errors) in [("inner", 0), ("outer", 0), ("beside", 0), ("failing", 6)] {
        let step = outcome.step(StepKind::Step, name);
        assert_eq!((step.count, step.errors), (6, errors), "{name}");
    }
    assert_eq!(outcome.load().requests().count, 12);
    assert_eq!(outcome.load().checks["both"].passes, 6);
}

#[test]
fn numbers_are_unique_and_settings_reach_the_scenario() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.post("/").body(vu.unique().to_string()).send().await?;
        vu.check("env", vu.env("COLOUR").as_deref() == Some("red") && vu.env("no such").is_none());
        Ok(())
    };
    let outcome = run(&server, scenario("unique", flow).iterations_per_vu(4, 50));
    let mut bodies = server.seen().bodies;
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 200);
    assert_eq!(outcome.load().checks["env"].fails, 0);
}

#[test]
fn user_time_is_the_sum_of_iteration_times() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 20).send().await?;
        Ok(())
    };
    let outcome =
        run(&server, scenario("paced", flow).ramping_vus([stage(millis(500), 5), stage(millis(500), 0)]));
    let stats = outcome.load();
    let (users, iterations) =
        (stats.vu_ns as f64, stats.iteration.sum_nanos() as f64 + stats.interrupted_ns as f64);
    assert!((users / iterations - 1.0).abs() < 0.02, "{users} for {iterations}");
}

#[test]
fn the_setup_of_users_takes_no_time_of_the_load() {
    let server = Server::start();
    let scenario = stateful("slow")
        .setup(async |_: &Vu| -> Result<()> { Ok(()) })
        .vu_setup(async |vu: &Vu, (): &()| -> Result<()> {
            vu.sleep(millis(700)).await;
            Ok(())
        })
        .iteration(async |vu: &Vu, (): &mut (), (): &()| -> Result {
            vu.get("/delay/{ms}").path("ms", 10).send().await?;
            Ok(())
        })
        .constant_vus(3, millis(300));
    let outcome = run(&server, scenario);
    // With the setup in it, the load would be over before it began.
    assert!(outcome.load().iterations >= 10, "{}", outcome.load().iterations);
    let took = outcome.stats.load_time;
    assert!(took < millis(700), "{took:?}");
    let users = outcome.load().vu_ns as f64 / 1e9;
    assert!(users < 3.0 * 0.7, "{users}");
}

#[test]
fn a_stop_in_the_middle_of_a_ramp_loses_no_request() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 5).send().await?;
        Ok(())
    };
    let scenarios = vec![scenario("ramp", flow).ramping_vus([stage(secs(2), 200)])];
    let (plan, stop) = (plan(Some(&server), &scenarios), StopFlag::default());
    let flag = stop.clone();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        flag.set();
    });
    let outcome = run_with(scenarios, plan, &stop);
    waiting.join().unwrap();
    assert!(outcome.end.as_ref().unwrap().interrupted);
    let (requests, seen) = (outcome.load().requests(), server.seen().requests);
    let responses = requests.count - requests.errors;
    assert!(
        responses <= seen && seen <= requests.count + requests.interrupted,
        "{responses} {seen} {requests:?}"
    );
    assert!(requests.interrupted > 0 && outcome.load().interrupted_iterations > 0);
}

#[test]
fn a_user_that_a_ramp_takes_away_and_brings_back_is_the_same_one() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.post("/").body(format!("{}:{}", vu.id(), vu.iteration())).send().await?;
        vu.sleep(millis(5)).await;
        Ok(())
    };
    let stages = [
        stage(millis(0), 2),
        stage(millis(100), 2),
        stage(millis(0), 0),
        stage(millis(100), 0),
        stage(millis(0), 2),
    ];
    let outcome =
        run(&server, scenario("back", flow).ramping_vus(stages.into_iter().chain([stage(millis(100), 2)])));
    let mut bodies = server.seen().bodies;
    let count = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), count, "an iteration number came twice");
    assert_eq!(outcome.load().iterations, count as u64);
    assert_eq!(server.seen().connections, 2);
}
