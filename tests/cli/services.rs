//! Services with the faults that services have, and the telemetry that they send.

use std::net::TcpListener;

use crate::tool::{Ended, tool};
use crate::workspace;

fn with_service(profile: &str) -> Ended {
    tool(workspace::load(), &format!("run -p scenarios ::thirty --no-reference --profile {profile}")).end()
}

#[test]
fn a_service_that_is_never_ready_ends_the_run_with_its_last_lines() {
    with_service("deaf").exits(102).says(&[
        "service `shop` was not ready within 700ms",
        "| thinking about it",
        "log: ",
    ]);
}

#[test]
fn a_service_that_ends_before_it_is_ready_is_told_with_its_status_and_last_lines() {
    with_service("early-end").exits(102).says(&[
        "service `shop` ended before it was ready",
        "3",
        "| no database",
    ]);
}

#[test]
fn a_service_that_ends_under_load_outweighs_a_failed_threshold() {
    let ended = tool(
        workspace::load(),
        "run -p scenarios ::too-strict --iterations 1000000 --no-reference --profile ends",
    )
    .end()
    .exits(102)
    .says(&["service `shop` ended during the run", "| out of memory", "2 thresholds failed"]);
    let summary = ended.summary();
    assert_eq!((&summary["exit_code"], &summary["verdict"]), (&102.into(), &"failed".into()));
    assert!(summary["thresholds"].as_array().unwrap().iter().any(|threshold| threshold["passed"] == false));
}

#[test]
fn a_port_that_already_answers_is_never_taken_for_ready() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!(
        "[[service]]\nname = 'shop'\ncommand = ['never-started']\nready = {{ tcp = '{address}' }}\n\
         port = {}\n",
        address.port()
    );
    let folder = workspace::package("taken", &[("loadtest.toml", &text)]);
    tool(folder.path(), "new smoke --path").args([workspace::library()]).end().exits(0);
    tool(folder.path(), "run")
        .end()
        .exits(102)
        .says(&[&format!("service `shop`: {address} already answers before the service was started")]);
}

#[test]
fn a_service_may_log_megabytes_that_nobody_reads() {
    let ended = tool(
        workspace::load(),
        "run -p scenarios ::too-strict --iterations 3 --no-reference --profile chatty",
    )
    .end();
    let summary = ended.summary();
    assert_eq!(summary["totals"]["requests"], 3, "{ended}");
    assert_eq!(summary["totals"]["errors"], 0, "{ended}");
    assert_eq!(ended.code, Some(99), "the threshold on 1000 requests fails: {ended}");
    let log = ended.run_folder().join("services/shop.log");
    assert!(log.metadata().unwrap().len() >= 10_000_000, "{ended}");
}

#[test]
fn proxies_of_the_environment_stand_neither_before_services_nor_before_the_receiver() {
    // Nobody listens there.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut call = tool(workspace::load(), "run -p scenarios ::thirty --no-reference --profile sound");
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        call = call.env(name, format!("http://{unused}"));
    }
    let ended = call.end().exits(0);
    assert_eq!(ended.summary()["run"]["trace"]["requests_joined"], 30, "{ended}");
}

#[test]
fn a_span_that_ends_before_it_starts_does_no_harm() {
    let ended = with_service("backwards").exits(0);
    let summary = ended.summary();
    assert_eq!(summary["totals"]["requests"], 30);
    for part in summary["attribution"].as_array().unwrap() {
        for operation in part["operations"].as_array().unwrap() {
            assert!(operation["critical_ms"].as_f64().unwrap() >= 0.0, "{part:#}");
        }
    }
}

#[test]
fn missing_and_null_fields_of_otlp_json_are_read_as_defaults() {
    let ended = with_service("nulls").exits(0);
    let trace = &ended.summary()["run"]["trace"];
    assert_eq!((&trace["requests_traced"], &trace["requests_joined"]), (&30.into(), &30.into()), "{ended}");
    assert!(
        !std::fs::read_to_string(ended.run_folder().join("services/shop.log")).unwrap().contains("answered")
    );
}

#[test]
fn a_flood_of_other_traces_changes_nothing() {
    let ended = with_service("flood").exits(0);
    let trace = &ended.summary()["run"]["trace"];
    assert_eq!((&trace["requests_traced"], &trace["requests_joined"]), (&30.into(), &30.into()), "{ended}");
    let kept = std::fs::read_to_string(ended.run_folder().join("spans.otlp.jsonl")).unwrap();
    assert!(!kept.contains("\"other\""));
}
