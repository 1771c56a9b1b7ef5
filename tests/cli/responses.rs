//! What servers do to their clients, and what the report makes of it.

use crate::server::Server;
use crate::tool::run;

#[test]
fn a_body_that_is_not_utf8_is_an_error_of_the_iteration_and_the_commonest_is_told() {
    let server = Server::start();
    let ended = run("not-utf8", &server).end().exits(102).says(&["no iteration succeeded", "UTF-8"]);
    let summary = ended.summary();
    assert_eq!(summary["scenarios"][0]["failed_iterations"], 3);
    // The request itself went well.
    assert_eq!(summary["totals"]["errors"], 0);
    assert_eq!(summary["steps"][0]["status"]["200"], 3);
}

#[test]
fn a_body_shorter_than_its_length_is_a_failed_request() {
    let server = Server::start();
    let ended = run("short-body", &server).end().exits(102).says(&["no iteration succeeded", "GET /short"]);
    let step = &ended.summary()["steps"][0];
    assert_eq!((&step["errors"], &step["error_types"]["body"]), (&3.into(), &3.into()), "{step:#}");
}

#[test]
fn an_idle_connection_that_the_server_closes_is_replaced_without_an_error() {
    let server = Server::start();
    let ended = run("idle", &server).end().exits(0);
    let (seen, summary) = (server.seen(), ended.summary());
    assert_eq!(summary["totals"]["errors"], 0, "{ended}");
    assert_eq!((seen.requests, seen.connections), (10, 10));
}

#[test]
fn a_response_of_ten_megabytes_arrives_whole() {
    let server = Server::start();
    let ended = run("big", &server).end().exits(99).says(&["1 threshold failed"]);
    let summary = ended.summary();
    assert_eq!(summary["checks"][0]["passes"], 3);
    // Exactly 30 MB, which is not more than 30 MB.
    assert_eq!(summary["thresholds"][0]["observed"], 30_000_000.0, "{ended}");
}

#[test]
fn a_base_url_that_refuses_is_why_nothing_ran() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = |arguments: &str| {
        let call =
            crate::tool::tool(crate::workspace::load(), &format!("run -p scenarios ::thirty {arguments}"));
        call.args(["--base-url", &format!("http://{unused}")])
            .end()
            .exits(102)
            .says(&["no iteration succeeded", "refused"])
    };
    // What fails alone is not put under load at all.
    let alone = run("");
    assert!(!alone.stderr.contains("Running"), "{alone}");
    let ended = run("--no-reference");
    assert_eq!(ended.summary()["exit_code"], 102);
    assert_eq!(ended.summary()["verdict"], "failed");
}

#[test]
fn proxies_of_the_environment_are_not_asked() {
    // Nobody listens there.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start();
    let mut call = run("thirty", &server);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        call = call.env(name, format!("http://{unused}"));
    }
    let summary = call.end().exits(0).summary();
    assert_eq!((&summary["totals"]["errors"], server.seen().requests), (&0.into(), 30));
}
