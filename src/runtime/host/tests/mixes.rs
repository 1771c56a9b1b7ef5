//! Mixes of flows in whole runs: exact shares, setups of each flow, and what became of the iterations.

use std::sync::Mutex;

use super::figures::summary;
use super::*;
use crate::model::flow::FlowStats;

fn run_of(scenario: Scenario) -> Outcome {
    let scenarios = vec![scenario];
    let plan = plan(None, &scenarios);
    run_with(scenarios, plan, &StopFlag::default())
}

async fn nothing(_: &Vu) -> Result {
    tokio::task::yield_now().await;
    Ok(())
}

fn ended(iterations: u64, failed_iterations: u64) -> FlowStats {
    FlowStats { iterations, failed_iterations, interrupted_iterations: 0 }
}

#[test]
fn the_weights_are_exact_over_all_users_and_threads() {
    let flows =
        [(7, scenario("browse", nothing)), (2, scenario("buy", nothing)), (1, scenario("sign-up", nothing))];
    let outcome = run_of(mix("shop", flows).shared_iterations(13, 1000));
    let flows = &outcome.load().flows;
    let want = [("browse", ended(700, 0)), ("buy", ended(200, 0)), ("sign-up", ended(100, 0))];
    assert_eq!(*flows, want.map(|(name, stats)| (name.to_owned(), stats)).into());
    assert_eq!(outcome.load().iterations, 1000);
}

#[test]
fn each_flow_has_its_setups_and_its_state_and_failures_are_its_own() {
    let torn_down = Arc::new(Mutex::new(Vec::new()));
    let counting = |name: &'static str, start: u64| {
        let torn_down = torn_down.clone();
        stateful(name)
            .setup(async move |_: &Vu| Ok(start))
            .vu_setup(async |vu: &Vu, start: &u64| Ok(start + vu.id()))
            .teardown(async move |start: u64| {
                torn_down.lock().unwrap().push(start);
                if start == 10 { Err("no brush".into()) } else { Ok(()) }
            })
            .iteration(async move |vu: &Vu, state: &mut u64, start: &u64| {
                // The user's n-th iteration of this flow.
                *state += 100;
                vu.check("own state", *state % 100 == start + vu.id());
                if *start == 20 { Err("out of stock".into()) } else { Ok(()) }
            })
    };
    let panicking = scenario("panicking", async |_: &Vu| -> Result { panic!("at once") });
    let shop = mix("shop", [(1, counting("a", 10)), (1, counting("b", 20)), (1, panicking)]);
    let scenarios = vec![shop.shared_iterations(4, 30)];
    let plan = plan(None, &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let want = [("a", ended(10, 0)), ("b", ended(10, 10)), ("panicking", ended(10, 10))];
    assert_eq!(outcome.load().flows, want.map(|(name, stats)| (name.to_owned(), stats)).into());
    assert_eq!(outcome.load().panics, 10);
    assert_eq!(outcome.load().checks["own state"].fails, 0);
    assert_eq!(*torn_down.lock().unwrap(), [10, 20], "the failure of one keeps no other from its teardown");
    assert_eq!(outcome.warnings.len(), 1);
    assert!(outcome.warnings[0].message.ends_with("the teardown failed: flow `a`: no brush"));
}

#[test]
fn what_a_flow_measures_has_its_name_as_a_tag() {
    let server = Server::start();
    let getting = |path: &'static str| {
        async move |vu: &Vu| -> Result {
            vu.get(path).send().await?;
            vu.counter("pages").add(1);
            Ok(())
        }
    };
    let flows = [(3, scenario("browse", getting("/users/1"))), (1, scenario("buy", getting("/status/503")))];
    let shop = mix("shop", flows)
        .shared_iterations(2, 40)
        .counter("pages")
        .threshold("http_reqs{flow:browse}", "count==30")
        .threshold("http_req_failed{flow:buy}", "rate==1")
        .threshold("iterations{flow:buy}", "count==10")
        .threshold("pages{flow:browse}", "count==30");
    let (_, summary) = summary(&server, shop);
    let failed: Vec<_> = summary.thresholds.iter().filter(|threshold| !threshold.passed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(summary.thresholds.len(), 4);
}

#[test]
fn what_the_end_cuts_off_is_counted_in_its_flow() {
    let endless = scenario("endless", async |_: &Vu| -> Result { std::future::pending().await });
    let shop = mix("shop", [(1, endless)]).constant_vus(2, millis(400)).graceful_stop(Duration::ZERO);
    let outcome = run_of(shop);
    // Both users, unless the machine was too busy to start one in time.
    let interrupted_iterations = outcome.load().interrupted_iterations;
    assert!((1..=2).contains(&interrupted_iterations));
    let want = FlowStats { interrupted_iterations, ..FlowStats::default() };
    assert_eq!(outcome.load().flows["endless"], want);
}

#[test]
fn a_flow_that_cannot_be_set_up_is_named() {
    let failing = stateful("buy").setup(async |_: &Vu| -> Result { Err("no basket".into()) });
    let failing = failing.iteration(async |_: &Vu, (): &mut (), (): &()| Ok(()));
    let outcome = run_of(mix("shop", [(1, scenario("browse", nothing)), (1, failing)]));
    assert_eq!(outcome.failure().message, "scenario `shop`: the setup failed: flow `buy`: no basket");
}

#[test]
fn a_mix_that_is_wrong_is_a_configuration_error() {
    let outcome = run_of(mix("shop", []));
    assert_eq!(outcome.failure().kind, FailureKind::Configuration);
    assert!(outcome.failure().message.starts_with("scenario `shop`: the mix has no flows"));
}
