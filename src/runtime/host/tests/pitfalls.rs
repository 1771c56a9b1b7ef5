//! What load tests are known to get wrong, in whole runs. Setups in the figures: see `users`; what a deadline cuts off:
//! `transfers`; late starts: `arrivals`; rounding, memory, and percentiles of intervals: with the model.

use super::*;

#[test]
fn an_answer_is_no_success_by_being_an_answer_and_fast_refusals_make_nothing_look_fast() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        for _ in 0..9 {
            vu.get("/status/{code}").path("code", 429).name("page").send().await?;
            vu.get("/status/{code}").path("code", 503).name("page").send().await?;
        }
        vu.get("/delay/{ms}").path("ms", 40).name("page").send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).iterations_per_vu(2, 5));
    let page = outcome.step(StepKind::Request, "page");
    assert_eq!((page.count, page.failed, page.rate_limited, page.errors), (190, 180, 90, 90));
    assert_eq!(page.status, [(200, 10), (429, 90), (503, 90)].into());
    assert_eq!(page.latency.count(), 10);
    let fastest = page.latency.min_nanos().unwrap();
    assert!(fastest >= 40_000_000, "{fastest} ns: an answer that took 40 ms is the fastest that counts");
}

#[test]
fn names_without_number_are_counted_together_and_the_first_of_them_is_named() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get(&format!("/items/{}", vu.iteration())).send().await?;
        Ok(())
    };
    let scenarios = vec![scenario("s", flow).iterations_per_vu(1, 700)];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let stats = outcome.load();
    assert_eq!((stats.steps.len(), stats.requests().count, server.seen().requests), (501, 700, 700));
    assert_eq!(outcome.step(StepKind::Request, "(other)").count, 200);
    assert_eq!(outcome.step(StepKind::Request, "GET /items/499").count, 1);
    let codes: Vec<_> = outcome.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["too-many-steps"]);
    let message = &outcome.warnings[0].message;
    assert!(message.contains("GET /items/500") && message.contains(".path("), "{message}");
}
