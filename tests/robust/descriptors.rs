//! A process that may have few descriptors: told before the load, and told apart from errors of the server.

use std::process::{Command, Stdio};

use crate::server::Server;
use crate::tool::{Call, run};

/// What the shell lets the tool and all that it starts have open, each.
const MOST: u64 = 120;

/// The same call, under a hard limit that it cannot raise.
fn limited(Call { command, marker }: Call) -> Call {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit -Sn {MOST} && ulimit -Hn {MOST} && exec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Call { command: shell, marker }
}

fn message<'s>(summary: &'s serde_json::Value, code: &str) -> &'s str {
    let warnings = summary["health"]["warnings"].as_array().unwrap();
    let found = warnings.iter().find(|warning| warning["code"] == code);
    found.unwrap_or_else(|| panic!("no {code} in {warnings:#?}"))["message"].as_str().unwrap()
}

/// The number before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().unwrap();
    before.rsplit(' ').find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn more_users_than_descriptors_are_told_before_the_load_and_make_the_run_invalid() {
    let server = Server::start();
    let users = ["steady", "--vus", "200", "--duration", "3s", "--trace", "off"];
    let ended = limited(run(&users).against(&server.url())).finish();
    assert_eq!(ended.code(), 104, "{}\n{}", ended.stdout, ended.stderr);
    let summary = ended.summary();
    let told = message(&summary, "preflight-descriptors");
    assert!(
        told.starts_with(&format!(
            "up to 200 users with a connection each want more than the {MOST} file descriptors"
        )),
        "{told}"
    );
    let open = number_before(&told[told.find("of which it has ").unwrap()..], ")");
    assert!((3..40).contains(&open), "{told}");
    // It is said when something can still be done about it.
    let at =
        |text: &str| ended.stderr.find(text).unwrap_or_else(|| panic!("no `{text}` in {}", ended.stderr));
    assert!(at("preflight-descriptors") < at("Running steady"), "{}", ended.stderr);

    let totals = &summary["totals"];
    let count = |figure: &str| totals[figure].as_u64().unwrap();
    assert!(count("generator_errors") > 0 && count("requests") > 0, "{totals:#}");
    assert_eq!(count("errors"), 0, "{totals:#}");
    // A connection for each descriptor that was left at most.
    let connections = server.seen().connections;
    assert!(connections > 0 && connections <= MOST, "{connections}");
    assert!(message(&summary, "generator-descriptors").contains("no file descriptors left"), "{summary:#}");
    assert_eq!((&summary["verdict"], &summary["health"]["valid"]), (&"invalid".into(), &false.into()));
}

#[test]
fn descriptors_that_run_out_on_the_way_are_errors_of_the_generator_and_not_of_the_server() {
    let server = Server::start();
    let ended = limited(run(&["leaking", "--trace", "off"]).against(&server.url())).finish();
    assert_eq!(ended.code(), 104, "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stderr.contains("preflight-descriptors"), "two users want little: {}", ended.stderr);
    let summary = ended.summary();
    let totals = &summary["totals"];
    let count = |figure: &str| totals[figure].as_u64().unwrap();
    assert!(count("generator_errors") > 0, "{totals:#}");
    assert_eq!((count("errors"), count("requests")), (0, server.seen().requests), "{totals:#}");
    let step = &summary["steps"][0];
    assert_eq!(
        step["error_types"]["generator_descriptors"].as_u64(),
        Some(count("generator_errors")),
        "{step:#}"
    );
    let told = message(&summary, "generator-descriptors");
    assert!(told.contains("ulimit -n"), "{told}");
    assert!(ended.stdout.contains("\n  generator-descriptors: "), "{}", ended.stdout);
    assert!(ended.stderr.contains("the measurement is not valid"), "{}", ended.stderr);
}
