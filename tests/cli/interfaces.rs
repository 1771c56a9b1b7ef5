//! What scripts rely on: the forms of the command, what is on stdout, the fields of `summary.json`.

use serde_json::Value;

use crate::server::Server;
use crate::tool::{PROGRAM, program, run, tool};
use crate::workspace;

#[test]
fn the_program_answers_to_each_of_its_names() {
    let on_path = std::path::Path::new(PROGRAM).parent().unwrap();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths =
        std::env::join_paths(std::iter::once(on_path.to_owned()).chain(std::env::split_paths(&paths)))
            .unwrap();
    let mut lists = Vec::new();
    for (name, arguments) in [
        (env!("CARGO"), "loadtest list -p scenarios"),
        (PROGRAM, "list -p scenarios"),
        (PROGRAM, "loadtest list -p scenarios"),
    ] {
        let ended = program(name, workspace::load(), arguments).env("PATH", &paths).end().exits(0);
        lists.push(ended.prints(&["scenarios::ramping-vus"]).stdout);
    }
    assert!(lists.iter().all(|list| *list == lists[0]));
    let ended =
        program(env!("CARGO"), workspace::load(), "loadtest --version").env("PATH", &paths).end().exits(0);
    ended.prints(&[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn json_is_all_that_is_on_stdout_when_it_is_asked_for() {
    let server = Server::start();
    let ended = run("paced", &server).args(["--message-format", "json"]).end().exits(0);
    let messages: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{ended}")))
        .collect();
    let reasons: Vec<_> = messages.iter().map(|message| message["reason"].as_str().unwrap()).collect();
    assert_eq!((reasons[0], reasons[reasons.len() - 1]), ("run-started", "run-finished"));
    assert!(reasons.contains(&"phase-started") && reasons.contains(&"interval"), "{reasons:?}");
    let requests: u64 = messages
        .iter()
        .filter(|message| message["reason"] == "interval")
        .map(|message| message["scenarios"]["paced"]["requests"].as_u64().unwrap())
        .sum();
    let summary = &messages[messages.len() - 1]["summary"];
    assert_eq!(summary["totals"]["requests"], requests);
    assert_eq!(server.seen().requests, requests);
}

#[test]
fn a_pipe_gets_no_escape_codes_and_colour_can_be_forced() {
    let server = Server::start();
    let plain = run("thirty", &server).end().exits(0);
    let refused = run("thirty", &server).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1").end().exits(0);
    for ended in [&plain, &refused] {
        assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'), "{ended:?}");
    }
    let forced = run("thirty", &server).args(["--color", "always"]).end().exits(0);
    assert!(forced.stderr.contains('\x1b'), "{forced:?}");
}

#[test]
fn the_table_has_the_columns_that_are_asked_for() {
    let server = Server::start();
    let header = |arguments: &[&str]| {
        let ended = run("thirty", &server).args(arguments).end().exits(0);
        let at = ended.stdout.lines().position(|line| line.starts_with("step ")).unwrap();
        let lines: Vec<_> = ended.stdout.lines().skip(at).map(str::to_owned).collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        (words(&lines[0]), words(&lines[2]))
    };
    let (names, cells) = header(&[]);
    assert_eq!(names, ["step", "count", "errors", "429s", "p50(ms)", "p95(ms)", "p99(ms)"]);
    assert_eq!(cells[..2], ["GET", "/"]);
    assert_eq!(cells[2..5], ["30", "0", "0"]);
    assert_eq!(cells.len(), 8);
    let (names, cells) = header(&["--columns", "count,avg,p90,max"]);
    assert_eq!(names, ["step", "count", "avg(ms)", "p90(ms)", "max(ms)"]);
    assert_eq!(cells.len(), 6);
}

/// Dotted paths of the contract's fields; `[]` stands for every element, of which there is one at least.
const FIELDS: &[&str] = &[
    "schema",
    "run.id",
    "run.started_at",
    "run.duration_s",
    "run.commit",
    "run.dirty",
    "run.base_url",
    "run.trace.iterations_seen",
    "run.trace.iterations_traced",
    "run.trace.requests_joined_share",
    "scenarios[].name",
    "scenarios[].package",
    "scenarios[].executor",
    "scenarios[].vus_max",
    "scenarios[].iterations",
    "scenarios[].failed_iterations",
    "scenarios[].panics",
    "scenarios[].dropped_iterations",
    "scenarios[].interrupted_iterations",
    "scenarios[].errors[].message",
    "scenarios[].errors[].count",
    "scenarios[].iteration_ms.p50",
    "totals.requests",
    "totals.errors",
    "totals.rate_limited",
    "totals.interrupted",
    "totals.requests_per_s",
    "steps[].package",
    "steps[].scenario",
    "steps[].step",
    "steps[].kind",
    "steps[].count",
    "steps[].errors",
    "steps[].rate_limited",
    "steps[].interrupted",
    "steps[].status",
    "steps[].error_types",
    "steps[].latency_ms.min",
    "steps[].latency_ms.mean",
    "steps[].latency_ms.p50",
    "steps[].latency_ms.p90",
    "steps[].latency_ms.p95",
    "steps[].latency_ms.p99",
    "steps[].latency_ms.max",
    "steps[].latency_ms.censored",
    "steps[].latency_ms.censored_above",
    "steps[].unloaded_ms.p50",
    "checks[].package",
    "checks[].scenario",
    "checks[].name",
    "checks[].passes",
    "checks[].fails",
    "thresholds[].package",
    "thresholds[].scenario",
    "thresholds[].metric",
    "thresholds[].expression",
    "thresholds[].observed",
    "thresholds[].passed",
    "attribution[].package",
    "attribution[].scenario",
    "attribution[].step",
    "attribution[].band",
    "attribution[].slowest[].trace_id",
    "attribution[].slowest[].duration_ms",
    "attribution[].operations[].service",
    "attribution[].operations[].operation",
    "attribution[].operations[].kind",
    "attribution[].operations[].critical_ms",
    "attribution[].operations[].share",
    "attribution[].operations[].share_ci95",
    "attribution[].operations[].calls",
    "attribution[].operations[].unloaded_ms",
    "attribution[].requests",
    "attribution[].requests_in_band",
    "attribution[].band_ms",
    "attribution[].mean_ms",
    "health.valid",
    "health.warnings",
    "health.generator_cpu_share",
    "health.host_cpu_share",
    "health.lateness_p99_ms",
    "health.processes[].name",
    "health.processes[].pid",
    "health.processes[].cpu_share",
    "health.processes[].runqueue_wait_ratio",
    "health.processes[].rss_bytes_max",
    "verdict",
    "exit_code",
];

/// Whether every place that `path` names is there. A field may be `null`; an array must hold something.
fn has(value: &Value, path: &str) -> bool {
    if path.is_empty() {
        return true;
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match name.strip_suffix("[]") {
        None => value.get(name).is_some_and(|inner| has(inner, rest)),
        Some(name) => value
            .get(name)
            .and_then(Value::as_array)
            .is_some_and(|items| !items.is_empty() && items.iter().all(|item| has(item, rest))),
    }
}

#[test]
fn the_summary_has_every_field_of_its_contract() {
    let arguments = "run -p scenarios ::everything --iterations 90 --profile sound";
    let summary = tool(workspace::load(), arguments).end().exits(0).summary();
    let missing: Vec<_> = FIELDS.iter().filter(|path| !has(&summary, path)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}\n{summary:#}");
    assert_eq!(summary["schema"], "loadtest.summary/1");
    assert_eq!((&summary["verdict"], &summary["exit_code"]), (&"passed".into(), &0.into()));
    let scenario = &summary["scenarios"][0];
    assert_eq!(
        (&scenario["iterations"], &scenario["failed_iterations"], &scenario["panics"]),
        (&90.into(), &2.into(), &1.into())
    );
    let kinds: Vec<_> = summary["steps"].as_array().unwrap().iter().map(|step| &step["kind"]).collect();
    assert!(kinds.contains(&&"request".into()) && kinds.contains(&&"step".into()), "{kinds:?}");
}
