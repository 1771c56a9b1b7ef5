//! Scenarios that block their worker thread, which a run does not wait for.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::model::health::judge;
use crate::model::summarise::BinaryRun;

/// User 1 blocks its thread in its first iteration, until the other end is dropped; the others go on.
fn blocking() -> (Scenario, Sender<()>) {
    let (release, blocked) = channel();
    let blocked = Arc::new(Mutex::new(blocked));
    let flow = async move |vu: &Vu| -> Result {
        vu.get("/user/{id}").path("id", vu.id()).send().await?;
        if vu.id() == 1 {
            // For ever, as far as the run is concerned; but a test ends.
            let _ = blocked.lock().unwrap().recv_timeout(secs(60));
        }
        vu.sleep(millis(10)).await;
        Ok(())
    };
    (scenario("blocking", flow).graceful_stop(millis(100)), release)
}

fn check(load: Scenario, stop: &StopFlag, is_stopped: bool) {
    let server = Server::start();
    let (infos, scenarios) = ([load.info().unwrap()], vec![load]);
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with(scenarios, plan, stop);
    let finished = outcome.end.as_ref().unwrap();
    assert_eq!((finished.interrupted, finished.signs.blocked_workers), (is_stopped, 1));
    assert_eq!(finished.signs.workers.len(), 1);
    // What the other thread measured is all there.
    let requests = outcome.load().requests();
    let of_other = server.seen().targets["/user/2"];
    assert!(of_other > 5 && requests.count >= of_other - requests.interrupted, "{of_other} {requests:?}");
    let judged = judge(&[BinaryRun {
        package: "p",
        scenarios: &infos,
        stats: &outcome.stats,
        signs: &finished.signs,
    }]);
    let codes: Vec<_> = judged.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert!(judged.is_invalid && codes.contains(&"worker-blocked"), "{judged:?}");
}

#[test]
fn a_run_ends_without_a_thread_that_is_blocked_and_is_invalid() {
    let (load, _release) = blocking();
    check(load.constant_vus(2, secs(1)), &StopFlag::default(), false);
}

#[test]
fn a_stop_does_not_wait_for_a_thread_that_is_blocked() {
    let (load, _release) = blocking();
    let stop = StopFlag::default();
    let flag = stop.clone();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(millis(1200));
        flag.set();
    });
    check(load.constant_vus(2, secs(600)), &stop, true);
    waiting.join().unwrap();
}

#[test]
fn a_thread_that_comes_back_in_time_hands_over_what_it_measured() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/user/{id}").path("id", vu.id()).send().await?;
        std::thread::sleep(millis(1500));
        Ok(())
    };
    let outcome = run(&server, scenario("slow", flow).graceful_stop(millis(0)).constant_vus(2, millis(100)));
    assert_eq!(outcome.end.as_ref().unwrap().signs.blocked_workers, 0);
    // Each thread came back from its first iteration, and was told the end in its second.
    let (stats, requests) = (outcome.load(), outcome.load().requests());
    assert_eq!((stats.iterations, stats.interrupted_iterations, requests.count), (2, 2, 2));
}
