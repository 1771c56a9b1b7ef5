//! How connections are made, as flags say it, and what the report tells of them.

use crate::server::Server;
use crate::tool::{run, tool};
use crate::workspace;

#[test]
fn phases_are_told_and_each_request_without_reuse_connects() {
    let server = Server::start();
    let ended = run("thirty", &server)
        .args(["--phases", "--no-connection-reuse"])
        .end()
        .exits(0)
        .prints(&["phases", "GET / p95"]);
    assert_eq!((server.seen().requests, server.seen().connections), (30, 30));
    let step = &ended.summary()["steps"][0];
    let mean = |phase: &str| step["phases_ms"][phase]["mean"].as_f64().unwrap();
    let all = ["blocked", "dns", "connecting", "tls", "sending", "waiting", "receiving"].map(mean);
    assert!(all[2] > 0.0 && all[5] > 0.0 && all[1] + all[3] == 0.0, "{step:#}");
    let (total, sum) = (step["latency_ms"]["mean"].as_f64().unwrap(), all.iter().sum::<f64>());
    assert!((total - sum).abs() < 0.01, "{total} {sum}");
    let duration = step["duration_ms"]["mean"].as_f64().unwrap();
    assert!((duration - all[4..].iter().sum::<f64>()).abs() < 0.01, "{step:#}");
}

#[test]
fn a_name_with_an_address_given_leads_here() {
    let server = Server::start();
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let ended = tool(workspace::load(), "run -p scenarios ::thirty --no-reference")
        .args([format!("--base-url=http://shop.invalid:{port}")])
        .args([format!("--resolve=shop.invalid:{port}:127.0.0.1")])
        .end()
        .exits(0);
    assert_eq!((ended.summary()["totals"]["errors"].as_u64(), server.seen().requests), (Some(0), 30));
}

#[test]
fn what_this_machine_cannot_send_makes_the_run_invalid_and_is_no_error_of_the_server() {
    let server = Server::start();
    let ended = run("thirty", &server)
        .args(["--source-ip", "192.0.2.1"])
        .end()
        .exits(102)
        .says(&["no iteration succeeded", "the measurement is not valid"])
        .prints(&["30 not sent by the generator", "generator_address: 30"]);
    let summary = ended.summary();
    let totals = &summary["totals"];
    assert_eq!(
        (&totals["requests"], &totals["errors"], &totals["generator_errors"]),
        (&0.into(), &0.into(), &30.into())
    );
    assert_eq!((&summary["health"]["valid"], server.seen().requests), (&false.into(), 0));
}

#[test]
fn options_that_make_no_sense_end_the_run_before_it_begins() {
    let server = Server::start();
    for (flags, words) in [
        (&["--http1", "--http2"][..], &["cannot be used with"][..]),
        (&["--ca-file", "nowhere.pem"], &["scenario `thirty`", "ca-files", "nowhere.pem"]),
        (&["--resolve", "a:b:127.0.0.1"], &["--resolve", "`b` is no port"]),
        (&["--source-ip", "127.0.0.9-127.0.0.2"], &["--source-ip", "no range"]),
    ] {
        run("thirty", &server).args(flags).end().exits(2).says(words);
    }
    assert_eq!(server.seen().requests, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn without_certificates_to_trust_no_load_begins_and_the_file_is_named() {
    let server = Server::start();
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    tool(workspace::load(), "run -p scenarios ::thirty --no-reference")
        .args([format!("--base-url=https://127.0.0.1:{port}")])
        // The server answers no handshake: were there something to trust, the load would end by this alone.
        .args(["--duration=2s"])
        .env("SSL_CERT_FILE", "nowhere.pem")
        .env("SSL_CERT_DIR", "nowhere")
        .end()
        .exits(2)
        .says(&["scenario `thirty`", "no certificates to trust", "SSL_CERT_FILE: cannot read nowhere.pem"]);
    assert_eq!(server.seen().connections, 0);
}

#[test]
fn whoever_takes_any_certificate_is_told_so() {
    let server = Server::start();
    let ended = run("thirty", &server).args(["--insecure"]).end().exits(0).prints(&["tls-insecure"]);
    let warnings = ended.summary()["health"]["warnings"].to_string();
    assert!(warnings.contains("tls-insecure"), "{warnings}");
}
