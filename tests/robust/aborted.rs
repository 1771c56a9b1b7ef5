//! A threshold that ends the run: what else was to run does not.

use crate::server::Server;
use crate::tool::run;

#[test]
fn a_threshold_that_ends_the_run_keeps_the_next_package_from_running_and_names_its_scenarios() {
    let server = Server::start();
    let ended = run(&["robust::aborting", "robust-second::second"]).against(&server.url()).finish();
    assert_eq!(ended.code(), 99, "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("Aborting http_reqs count<1 ends the run"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("Running second"), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("not-run: a threshold ended the run before these scenarios: second"),
        "{}",
        ended.stdout
    );
    let summary = ended.summary();
    let scenarios: Vec<_> =
        summary["scenarios"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(scenarios, ["aborting"]);
    let count = |figure: &str| summary["totals"][figure].as_u64().unwrap();
    let (done, seen) = (count("requests"), server.seen().requests);
    assert!(done > 0 && (done..=done + count("interrupted")).contains(&seen), "{seen}: {summary:#}");
    assert_eq!((&summary["exit_code"], &summary["verdict"]), (&99.into(), &"failed".into()));
}
