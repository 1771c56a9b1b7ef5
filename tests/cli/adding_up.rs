//! The figures of one run agree with each other.

use serde_json::Value;

use crate::server::Server;
use crate::tool::{run, tool};
use crate::workspace;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn user_time_is_the_sum_of_iteration_times_and_requests_over_time_is_the_rate() {
    let server = Server::start();
    let summary = run("paced", &server).end().exits(0).summary();
    let scenario = &summary["scenarios"][0];
    let (users, iterations) = (number(&scenario["vu_seconds"]), number(&scenario["iteration_seconds"]));
    assert!((users / iterations - 1.0).abs() < 0.02, "{users} s of users, {iterations} s of iterations");
    // A ramp to 5 and back in 2 s.
    assert!((4.0..6.5).contains(&users), "{users} s of users");
    let rate = number(&summary["totals"]["requests"]) / number(&summary["run"]["duration_s"]);
    assert!((number(&summary["totals"]["requests_per_s"]) / rate - 1.0).abs() < 0.001, "{summary:#}");
}

/// The scenarios of one package stand in two binaries, which run one after the other.
#[test]
fn two_binaries_are_one_run_with_figures_of_each_scenario_one_total_and_one_exit_code() {
    let server = Server::start();
    let ended = tool(workspace::load(), "run -p scenarios ::thirty ::too-few --no-reference --base-url")
        .args([server.url()])
        .end()
        .exits(99)
        .says(&["Running thirty", "Running too-few", "error: 1 threshold failed"])
        .prints(&["✗ too-few: http_reqs"]);
    let summary = ended.summary();
    let of = |list: &str, figure: &str| -> Vec<(String, f64)> {
        let each = summary[list].as_array().unwrap().iter();
        each.map(|it| (it["scenario"].as_str().unwrap_or_default().to_owned(), number(&it[figure]))).collect()
    };
    let want = |figures: [f64; 2]| {
        ["thirty", "too-few"].map(str::to_owned).into_iter().zip(figures).collect::<Vec<_>>()
    };
    let scenarios = summary["scenarios"].as_array().unwrap();
    let names: Vec<_> = scenarios.iter().map(|it| (&it["package"], &it["name"], &it["iterations"])).collect();
    let (package, thirty, two) = ("scenarios".into(), 30.into(), 2.into());
    assert_eq!(
        names,
        [(&package, &"thirty".into(), &thirty), (&package, &"too-few".into(), &two)],
        "{ended}"
    );
    assert_eq!(of("steps", "count"), want([30.0, 2.0]), "{ended}");
    let totals = &summary["totals"];
    assert_eq!((number(&totals["requests"]), server.seen().requests), (32.0, 32), "{ended}");
    let rate = 32.0 / number(&summary["run"]["duration_s"]);
    assert!((number(&totals["requests_per_s"]) / rate - 1.0).abs() < 0.001, "{summary:#}");
    let thresholds = summary["thresholds"].as_array().unwrap();
    let failed: Vec<_> = thresholds.iter().filter(|it| it["passed"] == false).collect();
    assert_eq!(failed.len(), 1, "{thresholds:#?}");
    assert_eq!((&failed[0]["scenario"], number(&failed[0]["observed"])), (&"too-few".into(), 2.0));
    assert_eq!((&summary["exit_code"], &summary["verdict"]), (&99.into(), &"failed".into()));
}

#[test]
fn where_the_time_went_sums_to_the_mean() {
    let ended =
        tool(workspace::load(), "run -p scenarios ::thirty --iterations 90 --profile sound --no-reference")
            .end()
            .exits(0);
    let summary = ended.summary();
    assert_eq!(summary["run"]["trace"]["requests_joined_share"], 1.0, "{ended}");
    let attribution = summary["attribution"].as_array().unwrap();
    let bands: Vec<_> = attribution.iter().map(|part| part["band"].as_str().unwrap()).collect();
    assert_eq!(bands, ["slower-half", "all"], "{ended}");
    for part in attribution {
        let operations = part["operations"].as_array().unwrap();
        let sum: f64 = operations.iter().map(|operation| number(&operation["critical_ms"])).sum();
        assert!((sum - number(&part["mean_ms"])).abs() < 0.1, "{part:#}");
        assert!(
            operations.iter().any(|it| it["service"] == "shop" && it["operation"] == "GET /"),
            "{part:#}"
        );
    }
}
