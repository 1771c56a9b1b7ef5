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
