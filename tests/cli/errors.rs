//! Each mistake with its message and its exit code.

use crate::server::Server;
use crate::tool::{run, tool};
use crate::workspace;

const EMPTY: (&str, &str) = ("Cargo.toml", "[workspace]\nresolver = '3'\n");

#[test]
fn a_misspelt_key_is_told_with_its_line_and_the_nearest_key() {
    for (text, told) in [
        (
            "[profile.default]\nbase_url = 'http://127.0.0.1:1'\n",
            "loadtest.toml:2:1: unknown key `profile.default.base_url`; did you mean `profile.default.base-url`?",
        ),
        (
            "\n\n[[service]]\nname = 'a'\ncomand = ['a']\n",
            "loadtest.toml:5:1: unknown key `service.comand`; did you mean `service.command`?",
        ),
    ] {
        let folder = workspace::of(&[EMPTY, ("loadtest.toml", text)]);
        for command in ["config", "run", "list"] {
            tool(folder.path(), command).end().exits(2).says(&[told]);
        }
    }
}

#[test]
fn a_threshold_on_an_unknown_metric_is_told_before_any_load() {
    let server = Server::start();
    tool(workspace::load(), "run -p unsound --base-url").args([server.url()]).end().exits(2).says(&[
        "scenario `unknown-metric`",
        "http_req_durations",
        "http_req_duration",
    ]);
    assert_eq!(server.seen().requests, 0);
}

#[test]
fn a_library_that_speaks_another_protocol_is_told_with_both_versions() {
    let ours = env!("CARGO_PKG_VERSION");
    tool(workspace::load(), "run -p fake").end().exits(2).says(&[
        "fake::fake is built with version 9.9.9 of the library, which speaks protocol 999",
        &format!("cargo-loadtest {ours}"),
        "help: make the dependency's version and that of cargo-loadtest the same",
    ]);
}

#[test]
fn a_relative_url_without_a_base_url_is_a_configuration_error() {
    tool(workspace::load(), "run -p scenarios ::one").end().exits(2).says(&["base-url"]);
}

#[test]
fn a_failed_threshold_is_told_and_has_its_code() {
    let server = Server::start();
    let ended = run("too-strict", &server).end().exits(99).says(&["error: 1 threshold failed"]);
    let ended = ended.prints(&["✗ http_reqs", "✓ http_req_failed", "count=3"]);
    let summary = ended.summary();
    let passed: Vec<_> =
        summary["thresholds"].as_array().unwrap().iter().map(|threshold| &threshold["passed"]).collect();
    assert_eq!(passed, [true, false]);
    assert_eq!((&summary["exit_code"], &summary["verdict"]), (&99.into(), &"failed".into()));
}

/// What would have run after it does not run, and is named.
#[test]
fn a_threshold_that_fails_on_the_way_ends_the_whole_run() {
    let server = Server::start();
    let ended = tool(workspace::load(), "run -p scenarios ::aborting ::idle --no-reference --base-url")
        .args([server.url()])
        .end()
        .exits(99)
        .says(&[
            "Aborting http_reqs{status:404,zone:north} count<3 ends the run",
            "error: 1 threshold failed",
        ])
        .prints(&["ended the run after 2 s", "orders", "counter", "not-run: ", "these scenarios: idle"]);
    let summary = ended.summary();
    let thresholds = summary["thresholds"].as_array().unwrap();
    let failed: Vec<_> = thresholds.iter().filter(|threshold| threshold["passed"] == false).collect();
    assert_eq!(failed.len(), 1, "{summary:#}");
    assert!((2.0..4.0).contains(&failed[0]["aborted_at_s"].as_f64().unwrap()), "{failed:?}");
    assert_eq!((&summary["exit_code"], &summary["verdict"]), (&99.into(), &"failed".into()));
    let scenario = &summary["scenarios"][0];
    let begun =
        scenario["iterations"].as_u64().unwrap() + scenario["interrupted_iterations"].as_u64().unwrap();
    let metric = |name: &str| {
        summary["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (metric("orders")["sum"].as_f64().unwrap() as u64, metric("orders")["kind"].clone()),
        (begun, "counter".into())
    );
    assert_eq!((metric("size")["count"].as_u64(), metric("size")["min"].as_f64()), (Some(begun), Some(0.0)));
}

/// In `config` as in `run`, where nothing is built or started before.
#[test]
fn a_service_that_is_configured_wrongly_is_told_before_anything_is_started() {
    let server = Server::start();
    for (profile, told) in [
        (
            "wrong-bin",
            "service `shop`: no package of this workspace has a binary `servise`; did you mean `service`?",
        ),
        (
            "wrong-placeholder",
            "service `shop`: unknown placeholder `{prot}` in `{prot}`: known here are `{port}`",
        ),
        ("wrong-address", "service `shop`: `127.0.0.1` is no `host:port`"),
        ("wrong-url", "base-url (loadtest.toml:"),
    ] {
        let ended =
            tool(workspace::load(), &format!("config --profile {profile}")).end().exits(2).says(&[told]);
        // What it is about is shown all the same.
        let ended = ended.prints(&["service.shop.", profile]);
        let error = ended.stderr.lines().find(|line| line.contains(told)).unwrap().to_owned();
        let call =
            tool(workspace::load(), &format!("run -p scenarios ::one --no-reference --profile {profile}"));
        // The URL is asked for where it is used.
        let call = if profile == "wrong-url" { call } else { call.args(["--base-url", &server.url()]) };
        let ended = call.end().exits(2).says(&[&error]);
        assert!(!ended.stderr.contains("Starting"), "{ended}");
    }
    assert_eq!(server.seen().requests, 0);
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    for (arguments, told) in [
        ("run --vus 0", "vus"),
        ("run --duration 10", "unit"),
        ("run --stage 1s:2 --iterations 3", "say different loads"),
        ("run --trace sometimes", "trace policy"),
        ("run --no-such-flag", "--no-such-flag"),
        ("run --columns p42x", "p42x"),
        ("run --profile nope", "unknown profile `nope`"),
        ("run -p nope", "no package `nope`"),
        ("blog list", "`list` is a command, not a filter: put the command first"),
        ("-p blog list", "list"),
        ("report 2000", "2000"),
    ] {
        tool(workspace::load(), arguments).end().exits(2).says(&[told]);
    }
}

#[test]
fn a_misspelt_variable_of_the_environment_is_told_with_the_nearest() {
    tool(workspace::load(), "config")
        .env("LOADTEST_BASEURL", "http://127.0.0.1:1")
        .end()
        .exits(2)
        .says(&["LOADTEST_BASEURL", "did you mean `LOADTEST_BASE_URL`?"]);
}

#[test]
fn a_folder_outside_any_workspace_is_told() {
    let nowhere = tempfile::tempdir().unwrap();
    tool(nowhere.path(), "list")
        .end()
        .exits(2)
        .says(&["could not find `Cargo.toml`", "is this folder in a cargo workspace?"]);
}
