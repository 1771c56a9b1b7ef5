//! Whole runs: executors, reference, errors, stops.

use super::*;

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
    assert!(stats.errors.messages[1].0.starts_with("panicked at src/runtime/host/tests/runs.rs:"));
    assert_eq!(server.seen().requests, 3);
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
fn a_threshold_that_fails_on_the_way_ends_the_run_and_says_when() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/status/{code}").path("code", 503).send().await?;
        vu.sleep(millis(5)).await;
        Ok(())
    };
    let limit = limit("rate<0.5").abort_on_fail();
    // The first may end nothing, the second has no samples, the third is not to be looked at so early.
    let scenarios = vec![
        scenario("bad", flow)
            .constant_vus(2, secs(60))
            .threshold("http_req_failed", "rate<0.1")
            .threshold("step_duration", crate::limit("p(95)<1s").abort_on_fail())
            .threshold("http_reqs", crate::limit("count<1").abort_on_fail().delay_abort_eval(secs(50)))
            .threshold("http_req_failed", limit),
    ];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    assert!(!outcome.end.as_ref().unwrap().interrupted);
    let [aborted] = &outcome.stats.aborted[..] else { panic!("{:?}", outcome.stats.aborted) };
    assert_eq!((aborted.scenario.as_str(), aborted.threshold.expression.as_str()), ("bad", "rate<0.5"));
    assert!((2000..4000).contains(&aborted.at_ms), "{aborted:?}");
    assert!(aborted.text.starts_with("rate=1.0000 ("), "{aborted:?}");
    assert!(outcome.stats.load_time < secs(10), "{:?}", outcome.stats.load_time);
    let (requests, seen) = (outcome.load().requests(), server.seen().requests);
    assert!((requests.count..=requests.count + requests.interrupted).contains(&seen), "{seen} {requests:?}");
}

#[test]
fn what_fails_alone_is_not_put_under_load() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/").send().await?;
        Err(if vu.iteration() == 0 { "one of a kind" } else { "no luck" })?
    };
    let scenarios = vec![scenario("bad", flow).constant_vus(4, secs(60))];
    let plan = RunPlan { reference: Some(ReferencePlan::default()), ..plan(Some(&server), &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    assert_eq!((outcome.failure().kind, &outcome.phases[..]), (FailureKind::Run, &[Phase::Reference][..]));
    let message = &outcome.failure().message;
    assert!(
        message.contains("no iteration succeeded: all 5 of the reference failed, most often with: no luck"),
        "{message}"
    );
    assert_eq!(server.seen().requests, 5);
}
