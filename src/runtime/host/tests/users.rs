//! What a user keeps, shares and measures.

use super::*;

#[test]
fn users_keep_their_connection_and_share_none() {
    let server = Server::start();
    run(&server, scenario("two", two_requests).iterations_per_vu(6, 20));
    assert_eq!(server.seen().connections, 6);
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

#[test]
fn a_panic_before_there_is_a_future_is_one_of_the_iteration() {
    fn eager(vu: &Vu) -> std::future::Ready<Result> {
        panic!("iteration {} has no future", vu.iteration());
    }
    let server = Server::start();
    let outcome = run(&server, scenario("eager", eager).iterations_per_vu(2, 3));
    assert_eq!((outcome.load().iterations, outcome.load().panics), (6, 6));
    let within = mix("mixed", [(1, scenario("eager", eager)), (1, scenario("two", two_requests))]);
    let outcome = run(&server, within.shared_iterations(1, 4));
    assert_eq!((outcome.load().iterations, outcome.load().panics), (4, 2));
}
