//! Whole runs: tags, metrics of the scenario's own, and the thresholds on them.

use super::*;
use crate::model::custom::MetricValues;
use crate::model::health::Signs;
use crate::model::summarise::{BinaryRun, Inputs, Joined, RunFacts as Facts, summarise};
use crate::model::summary::{Health, Summary};

/// The run's summary.
pub(super) fn summary(server: &Server, scenario: Scenario) -> (Outcome, Summary) {
    let infos = [scenario.info().unwrap()];
    let outcome = run(server, scenario);
    assert!(outcome.end.is_ok(), "{:?}", outcome.end);
    let facts = Facts {
        id: RunId::new(1, 1),
        started_unix_ns: 0,
        commit: None,
        dirty: None,
        base_url: None,
        seed: None,
    };
    let summary = summarise(Inputs {
        facts: &facts,
        binaries: &[BinaryRun {
            package: "p",
            scenarios: &infos,
            stats: &outcome.stats,
            signs: &Signs::default(),
        }],
        joined: Joined::default(),
        attribution: Vec::new(),
        health: Health { valid: true, ..Health::default() },
        outcomes: Vec::new(),
    });
    (outcome, summary)
}

#[test]
fn a_threshold_sees_the_samples_with_all_of_its_tags() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.tag("plan", if vu.id() == 1 { "premium" } else { "free" });
        vu.step("buy", async {
            let response = vu.get("/users/{id}").path("id", 1).tag("size", "large").send().await?;
            vu.check("answers", response.status() == 200);
            Ok(())
        })
        .await?;
        vu.get("/status/{code}").path("code", if vu.iteration() == 0 { 503 } else { 200 }).send().await?;
        vu.check_tagged("odd", vu.iteration() % 2 == 1, [("size", "small")]);
        Ok(())
    };
    let scenario = scenario("shop", flow)
        .iterations_per_vu(3, 4)
        .tag("zone", "north")
        .declare_tag("plan")
        .declare_tag("size")
        .threshold("http_reqs{plan:premium}", "count==8")
        .threshold("http_reqs{plan:premium,status:503}", "count==1")
        .threshold("http_reqs{size:large,group:buy}", "count==12")
        .threshold("http_reqs{zone:north}", "count==24")
        .threshold("http_req_failed{method:GET,plan:free}", "rate==0.125")
        .threshold(r#"http_req_duration{step:"GET /status/{code}",status:503}"#, "max>0")
        .threshold("iterations{plan:free}", "count==8")
        .threshold("step_duration{plan:premium}", "p(50)>0")
        .threshold("checks{plan:premium,check:odd}", "rate==0.5")
        .threshold("checks{size:small}", "rate==0.5")
        .threshold("checks{group:buy,scenario:shop}", "rate==1")
        .threshold("http_reqs{plan:gold}", "count>0")
        .threshold("http_req_failed{plan:gold}", limit("rate<1").allow_empty());
    let (_, summary) = summary(&server, scenario);
    let failed: Vec<_> = summary.thresholds.iter().filter(|threshold| !threshold.passed).collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    assert_eq!((failed[0].metric.as_str(), failed[0].text.as_str()), ("http_reqs{plan:gold}", "count=0"));
    assert_eq!(summary.exit_code, 99);
}

#[test]
fn metrics_of_the_scenarios_own_add_up_over_all_users_and_threads() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/").send().await?;
        vu.counter("orders").tag("tier", if vu.id() == 1 { "gold" } else { "tin" }).add(2);
        vu.counter("orders").add(-1);
        vu.gauge("queue").set(vu.iteration() as f64 + 0.5);
        vu.rate("hits").add(vu.iteration() < 2);
        vu.trend("render").record(millis(vu.id() * 10));
        vu.trend("size").record(vu.id());
        vu.trend("size").record(f64::NAN);
        vu.counter("size").add(1);
        vu.trend("undeclared").record(-3);
        Ok(())
    };
    let scenario = scenario("shop", flow)
        .iterations_per_vu(4, 5)
        .declare_tag("tier")
        .counter("orders")
        .gauge("queue")
        .rate("hits")
        .trend("render")
        .trend("size")
        .threshold("orders{tier:gold}", "count==10")
        .threshold("orders", "count==40")
        .threshold("queue", "value==4.5")
        .threshold("hits", "rate==0.4")
        .threshold("render", "max<=40ms")
        .threshold("size", "avg==2.5");
    let (outcome, summary) = summary(&server, scenario);
    let failed: Vec<_> = summary.thresholds.iter().filter(|threshold| !threshold.passed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let metrics = &outcome.load().metrics;
    assert_eq!(
        (metrics["orders"].senseless, metrics["size"].senseless, metrics["size"].misfits),
        (20, 20, 20)
    );
    let Some(MetricValues::Trend { values, durations: 0 }) = &metrics["undeclared"].values else {
        panic!("{metrics:?}")
    };
    assert_eq!((values.count(), values.min(), values.sum()), (20, Some(-3.0), -60.0));
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_runs() {
    for (scenario, words) in [
        (
            scenario("s", two_requests).counter("a").trend("a"),
            "the metric `a` is declared as a counter and as a trend",
        ),
        (scenario("s", two_requests).counter("http_reqs"), "`http_reqs` is a metric of the tool's own"),
        (scenario("s", two_requests).tag("status", "1"), "the tag `status` is set by the tool itself"),
        (scenario("s", two_requests).max_names(0), "max_names is at least 1"),
        (
            scenario("s", two_requests).counter("orders").threshold("ordres", "count>1"),
            "threshold (ordres, count>1): unknown metric `ordres`; did you mean `orders`?",
        ),
    ] {
        let why = scenario.info().unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn a_tag_that_the_tool_sets_itself_ends_the_run_as_misconfigured() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/").tag("status", "fine").send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).constant_vus(1, secs(60)));
    assert_eq!(outcome.failure().kind, FailureKind::Configuration);
    assert!(outcome.failure().message.contains("the tag `status` is set"), "{}", outcome.failure().message);
    assert_eq!(server.seen().requests, 0);
}

#[test]
fn names_without_end_are_told_once_with_the_first_of_them() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get(&format!("/users/{}", vu.unique())).send().await?;
        Ok(())
    };
    let scenarios = vec![scenario("many", flow).iterations_per_vu(4, 20).max_names(3)];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    assert_eq!(outcome.load().steps.len(), 4);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert_eq!(warning.code, "too-many-steps");
    assert!(warning.message.starts_with("more than 3 distinct steps: `GET /users/"), "{}", warning.message);
    assert_eq!(outcome.load().requests().count, 80);
}
