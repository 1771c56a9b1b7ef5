//! Ctrl-C and SIGTERM: once with mercy, twice without.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::running::{self, Running, start};
use crate::server::Server;
use crate::tool::{Ended, run};

/// Within this, results are kept.
const KEPT: Duration = Duration::from_secs(5);
/// Within this, everything is gone.
const GONE: Duration = Duration::from_secs(2);

const SIGNALS: [(Signal, i32); 2] = [(Signal::INT, 130), (Signal::TERM, 143)];

/// Signals the tool; how it ended, and after how long.
fn stop(mut tool: Running, signals: &[Signal], at_most: Duration) -> Ended {
    let begin = Instant::now();
    for (nth, signal) in signals.iter().enumerate() {
        if nth > 0 {
            // Two of one kind that are not handled yet are one.
            thread::sleep(Duration::from_millis(100));
        }
        running::signal(tool.pid(), *signal);
    }
    tool.wait(at_most);
    let ended = begin.elapsed();
    let gone = tool.all_gone(GONE);
    println!("{signals:?}: the tool ended after {ended:?}, everything else {gone:?} later");
    tool.into_ended()
}

#[test]
fn a_signal_during_the_load_keeps_the_results() {
    for scenario in ["steady", "stuck"] {
        for (signal, code) in SIGNALS {
            let server = Server::start();
            let tool =
                start(run(&[scenario, "--profile", "family", "--duration", "60s"]).against(&server.url()));
            tool.wait_for(&format!("Running {scenario}"), 1);
            if scenario == "stuck" {
                tool.wait_for("robust: stuck", 1);
            }
            // Some of it is in the journal already, some is not.
            thread::sleep(Duration::from_millis(1200));
            let ended = stop(tool, &[signal], KEPT);
            assert_eq!(ended.code(), code, "{}", ended.stderr);
            let summary = ended.summary();
            assert_eq!(summary["verdict"], "interrupted");
            assert_eq!(summary["exit_code"], code);
            let (requests, seen) = (summary["totals"]["requests"].as_u64().unwrap(), server.seen().requests);
            assert!(requests <= seen, "{requests} of {seen}");
            // A thread that is blocked cannot hand over what it has counted.
            if scenario == "steady" {
                assert!(requests > 0 && ended.stdout.contains("GET /count"), "{}", ended.stdout);
            }
        }
    }
}

#[test]
fn a_signal_while_services_start_ends_them() {
    for (signal, code) in SIGNALS {
        let server = Server::start();
        let tool = start(run(&["steady", "--profile", "family"]).against(&server.url()));
        tool.wait_for("Starting 2 services", 1);
        let ended = stop(tool, &[signal], GONE);
        assert_eq!(ended.code(), code, "{}", ended.stderr);
        assert_eq!(server.seen().requests, 0);
    }
}

#[test]
fn a_signal_between_two_packages_keeps_the_results_of_the_first() {
    for (signal, code) in SIGNALS {
        let server = Server::start();
        let packages = ["steady", "second", "--profile", "family"];
        let tool = start(run(&packages).against(&server.url()));
        tool.wait_for("Starting 2 services", 2);
        let requests = server.seen().requests;
        let ended = stop(tool, &[signal], KEPT);
        assert_eq!(ended.code(), code, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(
            (&summary["verdict"], summary["scenarios"].as_array().unwrap().len()),
            (&"interrupted".into(), 1)
        );
        // Those of the reference are no load.
        let of_load = summary["totals"]["requests"].as_u64().unwrap();
        assert!(of_load > 0 && of_load <= requests, "{of_load} of {requests}");
        assert_eq!(server.seen().requests, requests, "nothing of the second was measured");
    }
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    for (signal, code) in SIGNALS {
        for scenario in ["steady", "stuck"] {
            let server = Server::start();
            let tool =
                start(run(&[scenario, "--profile", "family", "--duration", "60s"]).against(&server.url()));
            tool.wait_for(&format!("Running {scenario}"), 1);
            let ended = stop(tool, &[signal, signal], GONE);
            assert_eq!(ended.code(), code, "{}", ended.stderr);
        }
    }
}

#[test]
fn a_signal_during_a_build_ends_the_build() {
    for (signal, code) in SIGNALS {
        let tool = start(run(&["steady", "--profile", "family"]).env("ROBUST_BUILD_SECONDS", "60"));
        tool.find("build script", |process| process.runs("build-script-build"));
        let ended = stop(tool, &[signal], GONE);
        assert_eq!(ended.code(), code, "{}", ended.stderr);
    }
}
