//! A secret is planted wherever one can be, and looked for in everything that is written and printed.

use std::path::Path;

use crate::running::files;
use crate::server::Server;
use crate::tool::{self, Call, Ended, call, run};

/// In the environment of the scenario, of the service, and in whatever these two say.
const SECRET: &str = "canary-4f1d";
/// In the headers that go to a collector.
const KEY: &str = "canary-9b2e";

fn secretive(call: Call) -> Ended {
    call.env("ROBUST_SECRET", SECRET).env("ROBUST_OTLP_KEY", KEY).finish()
}

/// Every place of `text` with a canary, with what stands around it.
fn found(place: &str, text: &str) -> Vec<String> {
    let around = |at: usize| {
        let part = &text.as_bytes()[at.saturating_sub(60)..text.len().min(at + 40)];
        format!("{place}: …{}…", String::from_utf8_lossy(part))
    };
    text.match_indices("canary").map(|(at, _)| around(at)).collect()
}

fn found_in_folder(folder: &Path) -> Vec<String> {
    let files = files(folder);
    for name in ["summary.json", "journal", "histograms.hlog", "spans.otlp.jsonl", "services/vault.log"] {
        assert!(files.contains_key(Path::new(name)), "no {name}: {:?}", files.keys());
    }
    files
        .iter()
        .flat_map(|(path, bytes)| found(&path.to_string_lossy(), &String::from_utf8_lossy(bytes)))
        .collect()
}

#[test]
fn a_secret_is_found_in_no_file_and_no_output() {
    let collector = Server::start();
    let ended = secretive(run(&["secrets", "--profile", "secrets", "--otlp-endpoint", &collector.url()]));
    assert!(collector.seen().connections > 0, "the key was used");
    let id = ended.stderr.split(" · run ").nth(1).unwrap_or_else(|| panic!("{}", ended.stderr));
    let id = id.lines().next().unwrap();
    let folder = tool::target().join("cargo-loadtest/runs").join(id);

    // The secret went where it should, and came back where it should not.
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("services/vault.log").contains("request POST /login"), "{}", read("services/vault.log"));
    assert!(read("spans.otlp.jsonl").contains("db.query.text"), "{}", read("spans.otlp.jsonl"));
    assert!(ended.stdout.contains("POST /login"), "{}", ended.stdout);
    assert!(ended.stdout.contains("used *** and ***"), "{}", ended.stdout);
    assert!(ended.stdout.contains("http_req") || ended.stdout.contains("failed"), "{}", ended.stdout);

    let mut places = found_in_folder(&folder);
    let report = secretive(call(&["report", id]));
    assert_eq!(report.code(), 0, "{}", report.stderr);
    let json = secretive(call(&["report", id, "--message-format", "json"]));
    let recovered = secretive(call(&["report", "--recover", id]));
    let config = secretive(call(&["config", "--profile", "secrets"]));
    assert!(config.stdout.contains("API_TOKEN"), "{}{}", config.stdout, config.stderr);
    let calls =
        [("run", ended), ("report", report), ("json", json), ("recovered", recovered), ("config", config)];
    for (name, ended) in &calls {
        places.extend(found(&format!("stdout of {name}"), &ended.stdout));
        places.extend(found(&format!("stderr of {name}"), &ended.stderr));
    }
    assert!(places.is_empty(), "{}", places.join("\n"));
}

#[test]
fn a_secret_is_not_in_the_messages_of_a_run_that_fails() {
    for arguments in [
        // The scenario's only answer is an error.
        &[
            "secrets",
            "--profile",
            "secrets",
            "--no-services",
            "--base-url",
            "http://canary-user:canary-pw@127.0.0.1:1/?k=canary",
        ][..],
        &["secrets", "--profile", "secrets", "--message-format", "json"],
        &[
            "secrets",
            "--profile",
            "secrets",
            "--otlp-endpoint",
            "http://canary-user:canary-pw@127.0.0.1:1/?k=canary",
        ],
        &["secrets", "--profile", "secrets", "--otlp-endpoint", "nonsense://canary-user:canary-pw@host"],
        &["secrets", "--profile", "secrets", "--base-url", "nonsense://canary-user:canary-pw@host/?k=canary"],
    ] {
        let ended = secretive(run(arguments));
        let mut places = found("stdout", &ended.stdout);
        places.extend(found("stderr", &ended.stderr));
        assert!(places.is_empty(), "{arguments:?}:\n{}", places.join("\n"));
    }
}
