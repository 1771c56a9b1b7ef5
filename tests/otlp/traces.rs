//! The shape of traces, the header that carries them, and sampling.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::server::Server;
use crate::sink::{Sink, text};
use crate::tool::{Ended, run};

/// The name of scenario processes in their resource.
const LOAD: &str = "loadtest";
/// What trace ids of this tool begin with.
const PREFIX: &str = "10ad7e57";

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn role(span: &Span) -> String {
    text(&span.attributes, "loadtest.role")
}

/// Runs the scenario `shape`, 20 iterations, and everything of it is forwarded to the sink.
fn shape(arguments: &[&str], protocol: &str) -> (Server, Sink, Ended) {
    let (server, sink) = (Server::start(), Sink::start());
    let ended = run(&[&["shape", "--otlp-endpoint", &sink.url()], arguments].concat())
        .against(&server.url())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .finish();
    assert_eq!(ended.code(), 0, "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(server.seen().requests, 40);
    (server, sink, ended)
}

#[test]
fn an_iteration_is_a_trace_of_steps_and_requests_and_spans_of_its_author() {
    for protocol in ["http/protobuf", "grpc"] {
        let (server, sink, _) = shape(&["--trace", "all"], protocol);
        let (grpc, http) = sink.calls();
        assert!(if protocol == "grpc" { grpc > 0 && http == 0 } else { grpc == 0 && http > 0 });
        let spans = sink.spans(LOAD);
        let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (&*span.span_id, span)).collect();
        assert_eq!(by_id.len(), spans.len(), "no span comes twice");
        let parent = |span: &Span| by_id.get(&*span.parent_span_id).copied();
        assert!(spans.iter().all(|span| hex(&span.trace_id).starts_with(PREFIX)));

        let [run] = spans.iter().filter(|span| role(span) == "run").collect::<Vec<_>>()[..] else {
            panic!("one span of the run");
        };
        let roots: Vec<&Span> = spans.iter().filter(|span| role(span) == "iteration").collect();
        assert_eq!(roots.len(), 20);
        assert_eq!(roots.iter().map(|root| &root.trace_id).collect::<BTreeSet<_>>().len(), 20);
        for root in roots {
            assert_eq!(root.kind(), SpanKind::Internal);
            assert!(root.parent_span_id.is_empty(), "{root:?}");
            let link = &root.links[0];
            assert_eq!((&link.trace_id, &link.span_id), (&run.trace_id, &run.span_id));

            let of_trace: Vec<&Span> = spans.iter().filter(|span| span.trace_id == root.trace_id).collect();
            let one = |name: &str| {
                let named: Vec<_> = of_trace.iter().filter(|span| span.name == name).collect();
                assert_eq!(named.len(), 1, "`{name}` in {of_trace:#?}");
                *named[0]
            };
            assert_eq!(of_trace.len(), 6);
            let (step, post, get) = (one("basket"), one("POST /basket/{id}"), one("GET /status/404"));
            let (price, between) = (one("price"), one("between"));
            for (span, above) in [(step, root), (post, step), (price, step), (get, root), (between, root)] {
                assert_eq!(parent(span), Some(above), "{}", span.name);
            }
            for (span, kind) in [
                (step, SpanKind::Internal),
                (post, SpanKind::Client),
                (get, SpanKind::Client),
                (price, SpanKind::Internal),
            ] {
                assert_eq!(span.kind(), kind, "{}", span.name);
                assert!(span.start_time_unix_nano >= root.start_time_unix_nano, "{}", span.name);
                assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{}", span.name);
            }
            assert_eq!(text(&price.attributes, "items"), "3");
        }

        // The parent that the server was told is the exported client span.
        let told: BTreeSet<String> = server.seen().traceparents.into_iter().collect();
        let clients: Vec<&Span> = spans.iter().filter(|span| span.kind() == SpanKind::Client).collect();
        let exported: BTreeSet<String> = clients
            .iter()
            .map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)))
            .collect();
        assert_eq!(told.len(), 40);
        assert_eq!(told, exported);
    }
}

#[test]
fn requests_have_the_attributes_of_the_http_conventions() {
    let (server, sink, ended) = shape(&["--trace", "all"], "http/protobuf");
    let spans = sink.spans(LOAD);
    for (name, method, template, status) in [
        ("POST /basket/{id}", "POST", "/basket/{id}", "200"),
        ("GET /status/404", "GET", "/status/404", "404"),
    ] {
        for span in spans.iter().filter(|span| span.name == name) {
            let value = |key: &str| text(&span.attributes, key);
            assert_eq!(value("http.request.method"), method);
            assert_eq!(value("url.template"), template);
            assert_eq!(value("http.response.status_code"), status);
            assert_eq!(value("server.address"), "127.0.0.1");
            assert_eq!(value("server.port"), server.address.port().to_string());
            assert_eq!(value("network.protocol.version"), "1.1");
            // A status that the scenario expects is no error.
            assert_eq!(value("error.type"), "");
            assert_eq!(value("loadtest.step"), name);
            let url = value("url.full");
            assert!(url.starts_with(&format!("{}/{}/", server.url(), ended.marker)), "{url}");
            assert!(!url.contains("coupon=none"), "{url}");
        }
    }
}

#[test]
fn an_iteration_that_is_not_sampled_says_so_and_sends_no_span() {
    let (server, sink, ended) = shape(&["--trace", "ratio:0"], "http/protobuf");
    let seen = server.seen();
    let sampled: BTreeSet<&str> =
        seen.traceparents.iter().filter(|it| it.ends_with("-01")).map(|it| &it[3..35]).collect();
    let unsampled: BTreeSet<&str> =
        seen.traceparents.iter().filter(|it| it.ends_with("-00")).map(|it| &it[3..35]).collect();
    assert_eq!(seen.traceparents.len(), 40);
    assert_eq!(sampled.len() + unsampled.len(), 20, "each iteration is one or the other");
    assert!(!sampled.is_empty() && !unsampled.is_empty(), "the first iterations are shown");
    let spans = sink.spans(LOAD);
    let exported: BTreeSet<String> =
        spans.iter().filter(|span| role(span) != "run").map(|span| hex(&span.trace_id)).collect();
    assert_eq!(exported.iter().map(String::as_str).collect::<BTreeSet<_>>(), sampled);
    // The author's spans are those of traced iterations alone.
    assert_eq!(spans.iter().filter(|span| span.name == "price").count(), sampled.len());
    let summary = ended.summary();
    assert_eq!(summary["totals"]["requests"], 40, "counts do not depend on sampling");
}

#[test]
fn without_tracing_there_is_no_header_and_no_span_and_services_are_told() {
    for (trace, sampler) in [("off", "always_off"), ("all", "parentbased_always_on")] {
        let (server, sink, ended) = shape(&["--trace", trace, "--profile", "traced"], "http/protobuf");
        let log = std::fs::read_to_string(ended.folder().unwrap().join("services/shop.log")).unwrap();
        assert!(log.lines().any(|line| line == format!("OTEL_TRACES_SAMPLER={sampler}")), "{log}");
        let headers = server.seen().traceparents.len();
        if trace == "off" {
            assert_eq!((headers, sink.spans(LOAD).len()), (0, 0));
            assert!(
                !sink.metrics("loadtest", "loadtest.iteration.duration").is_empty(),
                "metrics do not depend on tracing"
            );
        } else {
            assert_eq!(headers, 40);
        }
    }
}

#[test]
fn the_spans_of_a_service_are_forwarded_and_joined() {
    let sink = Sink::start();
    let ended = run(&["shape", "--profile", "traced", "--otlp-endpoint", &sink.url(), "--trace", "all"])
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .finish();
    assert_eq!(ended.code(), 0, "{}\n{}", ended.stdout, ended.stderr);
    let ids: BTreeSet<Vec<u8>> = sink.spans(LOAD).into_iter().map(|span| span.span_id).collect();
    let served: Vec<Span> =
        sink.spans("shop").into_iter().filter(|span| span.kind() == SpanKind::Server).collect();
    assert_eq!(served.len(), 40);
    assert!(served.iter().all(|span| ids.contains(&span.parent_span_id)));
    assert!(ended.stdout.contains("40 of 40 requests joined"), "{}", ended.stdout);
}
