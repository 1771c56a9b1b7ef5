//! A scenario process that is stopped, or blocks its threads, under load: what it measured is kept, and is said to be
//! invalid.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::running::{self, PATIENCE, start};
use crate::server::Server;
use crate::tool::run;

/// Stops the process after a while, and lets it go on a second later.
fn stop_for_a_second(pid: u32) {
    thread::sleep(Duration::from_millis(500));
    running::signal(pid, Signal::STOP);
    thread::sleep(Duration::from_secs(1));
    running::signal(pid, Signal::CONT);
}

#[test]
fn a_generator_that_was_stopped_makes_the_run_invalid_with_the_tool_and_alone() {
    let server = Server::start();
    let mut tool =
        start(run(&["::second", "--duration", "3s", "--watch", "robust-nobody"]).against(&server.url()));
    tool.wait_for("Running second", 1);
    let scenario = tool.find("scenario process", |process| process.runs("second-"));
    stop_for_a_second(scenario.pid);
    tool.wait(PATIENCE);
    let ended = tool.into_ended();
    assert_eq!(ended.code(), 104, "{}\n{}", ended.stdout, ended.stderr);
    let summary = ended.summary();
    assert_eq!((&summary["verdict"], &summary["health"]["valid"]), (&"invalid".into(), &false.into()));
    let warnings = summary["health"]["warnings"].as_array().unwrap();
    let message = |code: &str| {
        let found = warnings.iter().find(|warning| warning["code"] == code);
        found.unwrap_or_else(|| panic!("no {code} in {warnings:#?}"))["message"].as_str().unwrap().to_owned()
    };
    let text = message("generator-stopped");
    let seconds: f64 =
        text.split("did not run for ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((0.9..3.0).contains(&seconds), "stopped for a second: {text}");
    assert!(message("watch-unknown").contains("`robust-nobody`"), "{warnings:#?}");

    // Each second of the load has its line, with the tool and the process that it started.
    let folder = ended.folder().unwrap();
    let text = std::fs::read_to_string(folder.join("usage.jsonl")).unwrap();
    let seconds: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((2..=7).contains(&seconds.len()), "{text}");
    // At the end of the last one the process may be gone.
    for second in &seconds[..seconds.len() - 1] {
        let processes = second["processes"].as_array().unwrap();
        let names: Vec<_> = processes.iter().map(|process| process["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["cargo-loadtest", "loadtest"], "{text}");
        assert!(processes.iter().all(|process| process["open_files"].as_u64().unwrap() > 2), "{text}");
    }
    assert!(ended.stdout.contains("\nprocesses   "), "{}", ended.stdout);

    let alone = Command::new(&scenario.arguments[0])
        .env("LOADTEST_RUN", "1")
        .env("LOADTEST_BASE_URL", server.url())
        .env("LOADTEST_DURATION", "3s")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its load begins at once.
    stop_for_a_second(alone.id());
    let ended = alone.wait_with_output().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(104), "{stdout}");
    assert!(stdout.contains("generator-stopped: the scenario process did not run for "), "{stdout}");
}

#[test]
fn a_scenario_that_blocks_its_thread_neither_keeps_the_run_nor_makes_a_valid_one() {
    let server = Server::start();
    let mut tool = start(run(&["half-stuck", "--trace", "off"]).against(&server.url()));
    tool.wait_for("Running half-stuck", 1);
    // The thread is blocked for a minute.
    let waited = tool.wait(PATIENCE);
    assert!(waited < Duration::from_secs(50), "{waited:?}");
    let ended = tool.into_ended();
    assert_eq!(ended.code(), 104, "{}\n{}", ended.stdout, ended.stderr);
    let summary = ended.summary();
    assert_eq!(summary["health"]["valid"], false);
    let warnings = summary["health"]["warnings"].as_array().unwrap();
    let blocked = warnings.iter().find(|warning| warning["code"] == "worker-blocked").unwrap();
    let text = blocked["message"].as_str().unwrap();
    assert!(text.starts_with("1 worker thread was still blocked in the scenario's code"), "{text}");
    let (requests, seen) = (summary["totals"]["requests"].as_u64().unwrap(), server.seen().requests);
    assert!((10..=seen).contains(&requests), "{requests} of {seen}");
}
