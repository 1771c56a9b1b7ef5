//! A target that does not take what is forwarded costs nothing but itself, and is told.

use crate::server::Server;
use crate::tool::run;

#[test]
fn what_the_target_refuses_is_counted_and_told_and_spoils_nothing() {
    let (server, target) = (Server::start(), Server::start());
    let ended = run(&["shape", "--otlp-endpoint", &format!("{}/status/400", target.url()), "--trace", "all"])
        .against(&server.url())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .finish();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let refused = target.seen().requests;
    assert!(refused > 0);
    let summary = ended.summary();
    assert_eq!(summary["totals"]["requests"], 40);
    assert_eq!(summary["run"]["trace"]["iterations_traced"], 20);
    let warnings = summary["health"]["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "not-forwarded");
    let told = told.unwrap_or_else(|| panic!("{warnings:#?}"))["message"].as_str().unwrap();
    assert!(told.contains(&format!("{refused} ")), "{told} of {refused}");
    assert!(ended.stdout.contains("not-forwarded"), "{}", ended.stdout);
}
