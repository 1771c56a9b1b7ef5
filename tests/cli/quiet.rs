//! Nothing but the tool starts load: not cargo's own commands, and not what a scenario starts.

use std::path::Path;

use crate::server::Server;
use crate::tool::{Call, program, run};
use crate::workspace;

const CARGO: &str = env!("CARGO");

/// Runs it with a base URL, so that load would have somewhere to go.
fn starts_no_load(call: Call) {
    let server = Server::start();
    let ended = call.env("LOADTEST_BASE_URL", server.url()).end().exits(0);
    let seen = server.seen();
    assert_eq!((seen.requests, seen.connections), (0, 0), "{ended}");
    // The ordinary test ran, or was at least looked at.
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(all.contains("an_ordinary_test"), "{ended}");
}

#[test]
fn cargo_test_of_all_targets_starts_no_load() {
    starts_no_load(program(CARGO, workspace::load(), "test --workspace --all-targets"));
}

#[test]
fn cargo_bench_starts_no_load() {
    starts_no_load(program(CARGO, workspace::load(), "bench --workspace"));
}

#[test]
fn nextest_of_all_targets_starts_no_load() {
    let nextest = std::env::var_os("CARGO_LOADTEST_NEXTEST").expect(
        "this test needs cargo-nextest: name it in CARGO_LOADTEST_NEXTEST, or run `cargo xtask ci --only tests`, \
         which fetches it",
    );
    let call = program(Path::new(&nextest), workspace::load(), "nextest run --workspace --all-targets");
    starts_no_load(call.env("CARGO", CARGO));
}

#[test]
fn the_same_binary_runs_when_it_is_told_to() {
    for (arguments, told) in [("-- --run", "0"), ("", "1")] {
        let server = Server::start();
        let line = format!("bench -p scenarios --bench trouble {arguments}");
        let ended = program(CARGO, workspace::load(), &line)
            .env("LOADTEST_BASE_URL", server.url())
            .env("LOADTEST_ITERATIONS", "2")
            .env("LOADTEST_VUS", "1")
            // One of its scenarios always fails, which alone would end the run before its load.
            .env("LOADTEST_REFERENCE", "off")
            .env("LOADTEST_RUN", told)
            .end()
            .prints(&["GET /latin1", "totals: 10 requests, 2 errors"]);
        assert_eq!(server.seen().requests, 10, "two iterations of each scenario: {ended}");
    }
}

#[test]
fn a_child_that_inherits_the_environment_of_a_scenario_starts_no_load() {
    let server = Server::start();
    let ended = run("child", &server).end().exits(0);
    for check in ended.summary()["checks"].as_array().unwrap() {
        assert_eq!((&check["passes"], &check["fails"]), (&2.into(), &0.into()), "{ended}");
    }
    assert_eq!(server.seen().requests, 2);
}
