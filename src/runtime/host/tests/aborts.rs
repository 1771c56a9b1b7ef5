//! Thresholds that end a run on the way.

use super::*;

/// An iteration that always fails a check, and needs nobody.
async fn unlucky(vu: &Vu) -> Result {
    vu.check("luck", false);
    vu.sleep(millis(5)).await;
    Ok(())
}

fn unlucky_for(duration: Duration, limit: crate::Limit) -> Scenario {
    scenario("unlucky", unlucky).constant_vus(1, duration).threshold("checks", limit)
}

fn run_alone(scenarios: Vec<Scenario>) -> Outcome {
    let plan = plan(None, &scenarios);
    run_with(scenarios, plan, &StopFlag::default())
}

#[test]
fn the_threshold_of_one_scenario_ends_all_that_run_beside_it_or_would_come_later() {
    let torn_down = Arc::new(AtomicU64::new(0));
    let ends = torn_down.clone();
    let beside = stateful("beside")
        .setup(async |_: &Vu| Ok(()))
        .teardown(async move |()| {
            ends.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .iteration(async |vu: &Vu, (): &mut (), (): &()| {
            vu.check("luck", true);
            vu.sleep(millis(300)).await;
            Ok(())
        })
        .constant_vus(2, mins(5))
        .threshold("checks", limit("rate>0.5").abort_on_fail());
    let later = scenario("later", unlucky).constant_vus(1, secs(1)).start_after("unlucky");
    let outcome = run_alone(vec![unlucky_for(mins(5), limit("rate>0.5").abort_on_fail()), beside, later]);
    assert!(!outcome.end.as_ref().unwrap().interrupted, "nobody else ended it");
    let [aborted] = &outcome.stats.aborted[..] else { panic!("{:?}", outcome.stats.aborted) };
    assert_eq!(aborted.scenario, "unlucky", "the one beside it held");
    let load = &outcome.stats.load;
    assert!(
        load["beside"].iterations > 0 && load["beside"].interrupted_iterations == 2,
        "{:?}",
        load["beside"]
    );
    assert!(load.get("later").is_none_or(|later| later.iterations + later.interrupted_iterations == 0));
    assert_eq!(torn_down.load(Ordering::Relaxed), 1);
    assert!(outcome.stats.load_time < secs(20), "{:?}", outcome.stats.load_time);
}

#[test]
fn a_delay_keeps_a_threshold_from_ending_the_run_for_so_long() {
    let limit = limit("rate>0.5").abort_on_fail().delay_abort_eval(secs(3));
    let outcome = run_alone(vec![unlucky_for(mins(5), limit)]);
    let [aborted] = &outcome.stats.aborted[..] else { panic!("{:?}", outcome.stats.aborted) };
    // It is looked at every two seconds.
    assert!((4000..8000).contains(&aborted.at_ms), "{aborted:?}");
}

/// A load of two seconds ends when its thresholds are looked at for the first time.
#[test]
fn what_the_closing_interval_says_ends_nothing() {
    let run_to_the_end = || {
        let scenarios = vec![unlucky_for(secs(2), limit("rate>0.5").abort_on_fail())];
        let plan = plan(None, &scenarios);
        let mut told = Vec::new();
        execute(scenarios, plan, &StopFlag::default(), &mut |event| match event {
            Event::Interval(interval) if interval.phase == Phase::Load => told.push(true),
            Event::Aborted(_) => told.push(false),
            _ => {}
        });
        // A look before the end may have ended it; then the closing interval comes after.
        assert_eq!(told.last(), Some(&true), "{told:?}");
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(run_to_the_end))));
}
