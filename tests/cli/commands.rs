//! The commands beside `run`.

use serde_json::Value;

use crate::server::Server;
use crate::tool::{run, tool};
use crate::workspace;

#[test]
fn config_shows_each_value_with_its_source_and_masks_secrets() {
    let call = || {
        tool(workspace::load(), "config --profile secret --vus 7 -e COLOUR=blue")
            .env("FIXTURE_TOKEN", "hunter2")
            .env("LOADTEST_TRACE", "off")
    };
    let ended = call().end().exits(0);
    let row = |key: &str| {
        let line = ended.stdout.lines().find(|line| line.split_whitespace().next() == Some(key));
        line.unwrap_or_else(|| panic!("no {key} in {ended}"))
    };
    assert!(row("profile").ends_with("--profile") && row("profile").contains("secret"), "{ended}");
    assert!(row("base-url").contains("loadtest.toml:"), "{ended}");
    assert!(row("env.COLOUR").contains("blue"), "{ended}");
    assert!(row("trace").contains("off") && row("trace").contains("LOADTEST_TRACE"), "{ended}");
    assert!(!ended.stdout.contains("hunter2") && !ended.stderr.contains("hunter2"), "{ended}");
    let json = call().args(["--message-format", "json"]).end().exits(0);
    let entries: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    assert!(entries.iter().all(|entry| entry["key"].is_string() && !entry["source"].is_null()), "{json}");
    assert!(entries.iter().any(|entry| entry["key"] == "trace" && entry["value"] == "off"), "{json}");
    assert!(!json.stdout.contains("hunter2"), "{json}");
}

#[test]
fn the_report_of_a_stored_run_is_the_page_that_was_printed() {
    let server = Server::start();
    let ran = run("thirty", &server).end().exits(0);
    let id = ran.run_folder().file_name().unwrap().to_str().unwrap().to_owned();
    let page = |text: &str| text.split("\nrun saved: ").next().unwrap().trim().to_owned();
    let again = tool(workspace::load(), "report").args([&id]).end().exits(0);
    assert_eq!(page(&again.stdout), page(&ran.stdout), "{again}");
    let json = tool(workspace::load(), "report --message-format json").args([&id]).end().exits(0);
    let stored: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        if stored["summary"].is_null() { &stored } else { &stored["summary"] },
        &ran.summary(),
        "{json}"
    );
}

#[test]
fn a_new_scenario_compiles_and_runs() {
    let folder = workspace::package("shop-of-one", &[]);
    tool(folder.path(), "new checkout --path").args([workspace::library()]).end().exits(0);
    let server = Server::start();
    let ended = tool(folder.path(), "checkout --vus 2 --iterations 2 --no-reference --base-url")
        .args([server.url()])
        .end()
        .exits(0)
        .prints(&["GET /", "✓ http_req_failed"]);
    assert_eq!(server.seen().requests, 2, "{ended}");
    tool(folder.path(), "new checkout --path")
        .args([workspace::library()])
        .end()
        .exits(2)
        .says(&["exists already"]);
}

#[test]
fn built_and_not_run_is_no_load() {
    let server = Server::start();
    tool(workspace::load(), "run -p scenarios --no-run --profile sound --base-url")
        .args([server.url()])
        .end()
        .exits(0)
        .says(&["Built scenarios::load"]);
    assert_eq!(server.seen().requests, 0);
}
