//! Arrival rates from flags and from the environment, and what does not go with them.

use serde_json::Value;

use crate::server::Server;
use crate::tool::{run, tool};
use crate::workspace;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn a_rate_takes_the_place_of_the_scenarios_load() {
    let server = Server::start();
    let ended = run("one", &server)
        .args(["--rate", "40/s", "--duration", "1s", "--max-vus", "20", "--seed", "7"])
        .end()
        .exits(0)
        .says(&["constant-arrival-rate 40/s for 1s, up to 20 users"])
        .prints(&["response, from when it was due: p50 ", "dropped: none"]);
    let summary = ended.summary();
    let scenario = &summary["scenarios"][0];
    assert_eq!((number(&scenario["iterations"]), number(&summary["run"]["seed"])), (40, 7));
    assert_eq!(server.seen().requests, 40);
    assert!(scenario["response_ms"]["p50"].as_f64() >= scenario["iteration_ms"]["p50"].as_f64());
}

#[test]
fn the_environment_gives_a_rate_and_a_flag_another() {
    let server = Server::start();
    let summary = run("one", &server)
        .env("LOADTEST_RATE", "10/s")
        .env("LOADTEST_DURATION", "1s")
        .args(["--rate", "20/s"])
        .end()
        .exits(0)
        .summary();
    assert_eq!(number(&summary["scenarios"][0]["iterations"]), 20);
}

#[test]
fn what_does_not_go_with_a_rate_is_refused_by_both_names() {
    for (flags, names) in [
        ("--rate 5/s --vus 2", ["rate (--rate)", "vus (--vus)"]),
        ("--rate 5/s --iterations 2", ["rate (--rate)", "iterations (--iterations)"]),
        ("--rate 5/s --stage 1s:2", ["stages (--stage)", "rate (--rate)"]),
        ("--max-vus 5 --vus 2", ["max-vus (--max-vus)", "vus (--vus)"]),
        ("--rate 5/s", ["scenario `one`", "a rate needs a duration"]),
        ("--max-vus 5", ["scenario `one`", "max-vus"]),
        ("--rate 5", ["`5` is no rate", "100/s"]),
    ] {
        let call = tool(workspace::load(), &format!("run -p scenarios ::one {flags}"));
        call.args(["--base-url", "http://127.0.0.1:1"]).end().exits(2).says(&names);
    }
}
