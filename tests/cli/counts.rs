//! What the tool counts is what the server saw.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::server::Server;
use crate::tool::run;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Responses by status, of all steps.
fn statuses(summary: &Value) -> BTreeMap<u16, u64> {
    let mut statuses = BTreeMap::new();
    for step in summary["steps"].as_array().unwrap() {
        for (status, count) in step["status"].as_object().unwrap() {
            *statuses.entry(status.parse().unwrap()).or_default() += number(count);
        }
    }
    statuses
}

fn transport_errors(summary: &Value) -> u64 {
    let steps = summary["steps"].as_array().unwrap();
    steps.iter().flat_map(|step| step["error_types"].as_object().unwrap().values()).map(number).sum()
}

#[test]
fn every_executor_counts_exactly_what_the_server_saw() {
    for (scenario, iterations) in [
        ("shared-iterations", Some(120)),
        ("iterations-per-vu", Some(120)),
        ("constant-vus", None),
        ("ramping-vus", None),
    ] {
        let server = Server::start();
        let summary = run(scenario, &server).end().exits(0).summary();
        let (seen, totals, of_scenario) = (server.seen(), &summary["totals"], &summary["scenarios"][0]);
        assert_eq!(of_scenario["executor"], scenario);
        assert_eq!(number(&totals["interrupted"]), 0, "{scenario}: nothing was cut off");
        assert_eq!(number(&of_scenario["interrupted_iterations"]), 0);
        let done = number(&of_scenario["iterations"]);
        assert!(done > 0 && iterations.is_none_or(|iterations| done == iterations), "{scenario}: {done}");
        assert_eq!(number(&totals["requests"]), 2 * done, "{scenario}");
        assert_eq!(number(&totals["requests"]), seen.requests, "{scenario}");
        assert_eq!(statuses(&summary), seen.status, "{scenario}");
        let check = &summary["checks"][0];
        assert_eq!(number(&check["passes"]), seen.status[&201], "{scenario}");
        assert_eq!(number(&check["fails"]), seen.status.get(&404).copied().unwrap_or(0), "{scenario}");
    }
}

#[test]
fn what_is_cut_off_or_dropped_lies_between_the_bounds() {
    for scenario in ["cut-off", "dropped"] {
        let server = Server::start();
        let ended = run(scenario, &server).end();
        let summary = ended.summary();
        let responses: u64 = statuses(&summary).values().sum();
        let interrupted = number(&summary["totals"]["interrupted"]);
        let seen = server.seen().requests;
        // The server saw a request that was sent once more twice.
        let retries = number(&summary["totals"]["retries"]);
        let most = responses + transport_errors(&summary) + interrupted + retries;
        assert!(responses <= seen && seen <= most, "{scenario}: {responses} <= {seen} <= {most}\n{ended}");
        assert!(seen > responses, "{scenario} has a clean end");
    }
}

#[test]
fn an_unanswered_request_is_an_error_with_its_class() {
    let server = Server::start();
    let summary = run("dropped", &server).end().exits(0).summary();
    assert_eq!(number(&summary["totals"]["errors"]), 20);
    assert_eq!(transport_errors(&summary), 20);
    assert_eq!(number(&summary["scenarios"][0]["failed_iterations"]), 20);
    assert_eq!(statuses(&summary), BTreeMap::from([(200, 20)]));
}

#[test]
fn the_reference_is_seen_by_the_server_and_is_in_no_count() {
    let server = Server::start();
    let ended = crate::tool::tool(crate::workspace::load(), "run -p scenarios ::thirty --base-url")
        .args([server.url()])
        .end()
        .exits(0);
    assert_eq!(number(&ended.summary()["totals"]["requests"]), 30);
    assert_eq!(server.seen().requests, 30 + 5);
}
