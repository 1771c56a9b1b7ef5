//! OTLP/HTTP.

use std::time::SystemTime;

use ::http::Method;
use ::http::header::{ALLOW, CONTENT_ENCODING, HOST, ORIGIN};
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};

use super::super::server::MESSAGE_LIMIT;
use super::super::server::RpcStatus;
use super::super::store::QUIET;
use super::*;
use crate::model::id::{SpanId, TraceId};

/// A span of this run as a sender writes it in JSON.
fn json(trace: u64, id: u64) -> String {
    serde_json::to_string(&of_service(vec![proto(trace, id, "GET /users")])).unwrap()
}

#[tokio::test]
async fn protobuf_and_json_are_taken_plain_and_compressed() {
    let receiver = start();
    let protobuf = |trace| of_service(vec![proto(trace, 1, "GET /users")]).encode_to_vec();
    for (index, (content_type, encoding, body)) in [
        (PROTOBUF, None, protobuf(0)),
        (PROTOBUF, Some("gzip"), gzip(&protobuf(1))),
        (PROTOBUF, Some("identity"), protobuf(2)),
        (JSON, None, json(3, 1).into()),
        ("application/json; charset=utf-8", None, json(4, 1).into()),
        ("Application/JSON", Some("GZIP"), gzip(json(5, 1).as_bytes())),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = client()
            .post(format!("{}/v1/traces", receiver.endpoint()))
            .header(CONTENT_TYPE, content_type)
            .body(body);
        if let Some(encoding) = encoding {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{content_type} {encoding:?}");
        let (answer, empty) = if content_type == PROTOBUF { (PROTOBUF, "") } else { (JSON, "{}") };
        assert_eq!(response.headers()[CONTENT_TYPE], answer);
        assert_eq!(response.bytes().await.unwrap(), empty);
        assert_eq!(receiver.counts().spans_kept, index as u64 + 1);
    }
    let traces = finished(&receiver);
    assert_eq!(traces.len(), 6);
    assert!(traces.iter().all(|trace| trace.spans[0].name == traces[0].spans[0].name));
}

#[tokio::test]
async fn all_signals_are_taken_over_both_versions_of_http() {
    let receiver = start();
    for client in [client(), builder().http2_prior_knowledge().build().unwrap()] {
        for signal in Signal::ALL {
            for (content_type, body) in [(PROTOBUF, ""), (JSON, "{}")] {
                let url = format!("{}{}", receiver.endpoint(), signal.http_path());
                let request = client.post(url).header(CONTENT_TYPE, content_type).body(body);
                assert_eq!(request.send().await.unwrap().status(), StatusCode::OK, "{signal:?}");
            }
        }
    }
    assert_eq!(receiver.counts(), ReceiverCounts { requests: 12, ..ReceiverCounts::default() });
}

#[tokio::test]
async fn hostile_and_mistaken_requests_get_the_right_status_and_are_counted() {
    let receiver = start();
    let good = of_service(vec![proto(1, 1, "a")]).encode_to_vec();
    let deep_json = format!("{{\"resourceSpans\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_value = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{{"key":"a","value":{}{}}}]}}]}}]}}]}}"#,
        r#"{"arrayValue":{"values":["#.repeat(200),
        "]}}".repeat(200),
    );
    let truncated = {
        let mut bytes = gzip(&good);
        bytes.truncate(bytes.len() / 2);
        bytes
    };
    let bomb = gzip(&vec![0; MESSAGE_LIMIT + 1]);
    let mut malformed = 0;
    for (method, path, content_type, encoding, body, want) in [
        (Method::POST, "/v1/traces", PROTOBUF, "", vec![0xff; 64], 400),
        (Method::POST, "/v1/metrics", PROTOBUF, "", vec![0x0a, 0xff], 400),
        (Method::POST, "/v1/logs", PROTOBUF, "", b"\x0a\x02\x12\x09".to_vec(), 400),
        (Method::POST, "/v1/traces", PROTOBUF, "", good[..good.len() - 1].to_vec(), 400),
        (Method::POST, "/v1/traces", PROTOBUF, "gzip", good.clone(), 400),
        (Method::POST, "/v1/traces", PROTOBUF, "gzip", truncated, 400),
        (Method::POST, "/v1/traces", PROTOBUF, "gzip", bomb.clone(), 413),
        (Method::POST, "/v1/traces", JSON, "gzip", bomb, 413),
        (Method::POST, "/v1/traces", PROTOBUF, "", vec![0; MESSAGE_LIMIT + 1], 413),
        (Method::POST, "/v1/traces", JSON, "", b"{".to_vec(), 400),
        (Method::POST, "/v1/traces", JSON, "", b"\xff".to_vec(), 400),
        (Method::POST, "/v1/traces", JSON, "", good.clone(), 400),
        (Method::POST, "/v1/metrics", JSON, "", b"[]".to_vec(), 400),
        (Method::POST, "/v1/traces", JSON, "", deep_json.into(), 400),
        (Method::POST, "/v1/traces", JSON, "", deep_value.into(), 400),
        (Method::POST, "/v1/traces", JSON, "", format!("[{}0]", "0,".repeat(1 << 20)).into(), 413),
        (Method::POST, "/v1/traces", "text/plain", "", good.clone(), 415),
        (Method::POST, "/v1/traces", "", "", good.clone(), 415),
        (Method::POST, "/v1/traces", PROTOBUF, "br", good.clone(), 415),
        (Method::GET, "/v1/traces", PROTOBUF, "", vec![], 405),
        (Method::PUT, "/v1/logs", JSON, "", good.clone(), 405),
        (Method::POST, "/", PROTOBUF, "", good.clone(), 404),
        (Method::POST, "/v1/traces/", JSON, "", good.clone(), 404),
        (Method::POST, Signal::Traces.grpc_path(), PROTOBUF, "", good.clone(), 415),
    ] {
        let before = receiver.counts();
        let mut request =
            client().request(method.clone(), format!("{}{path}", receiver.endpoint())).body(body);
        for (name, value) in [(CONTENT_TYPE, content_type), (CONTENT_ENCODING, encoding)] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.unwrap();
        let what = format!("{method} {path} {content_type:?} {encoding:?}");
        assert_eq!(response.status(), want, "{what}");
        if want == 405 {
            assert_eq!(response.headers()[ALLOW], "POST");
        }
        let answer = if content_type == JSON { JSON } else { PROTOBUF };
        assert_eq!(response.headers()[CONTENT_TYPE], answer, "{what}");
        let body = response.bytes().await.unwrap();
        let message = if content_type == JSON {
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["message"]
                .as_str()
                .unwrap()
                .to_owned()
        } else {
            RpcStatus::decode(body).unwrap().message
        };
        assert!(!message.is_empty(), "{what}");
        malformed += u64::from(want == 400);
        let after = receiver.counts();
        assert_eq!(after.requests_malformed, malformed, "{what}: {message}");
        assert_eq!(after.requests_refused, before.requests_refused + 1, "{what}");
    }
    assert_eq!(receiver.counts().spans_kept, 0);
    assert_eq!(post(&receiver, Signal::Traces, good).await, StatusCode::OK, "it still works");
}

#[tokio::test]
async fn a_span_of_this_run_nested_too_deep_to_decode_is_counted() {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

    let mut value = AnyValue::default();
    for _ in 0..200 {
        value = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) };
    }
    let mut deep = proto(1, 1, "deep");
    deep.attributes = vec![KeyValue { key: "a".into(), value: Some(value), ..KeyValue::default() }];
    let receiver = start();
    let body = of_service(vec![deep, proto(1, 2, "flat")]).encode_to_vec();
    assert_eq!(post(&receiver, Signal::Traces, body).await, StatusCode::OK);
    let counts = receiver.counts();
    assert_eq!((counts.spans_malformed, counts.spans_kept), (1, 1));
}

#[tokio::test]
async fn requests_that_name_another_host_are_refused_and_pages_are_told_nothing() {
    let receiver = start();
    let url = format!("{}/v1/traces", receiver.endpoint());
    let port = receiver.address().port();
    for (host, want) in [
        (format!("localhost:{port}"), StatusCode::OK),
        (format!("evil.example:{port}"), StatusCode::FORBIDDEN),
        ("127.0.0.1:1".to_owned(), StatusCode::FORBIDDEN),
    ] {
        let request = client().post(&url).header(HOST, host).header(CONTENT_TYPE, PROTOBUF);
        assert_eq!(request.send().await.unwrap().status(), want);
    }
    for method in [Method::OPTIONS, Method::POST] {
        let request = client().request(method, &url).header(ORIGIN, "http://evil.example");
        let response = request.header(CONTENT_TYPE, JSON).body("{}").send().await.unwrap();
        let allowed = response.headers().keys().find(|name| name.as_str().starts_with("access-control"));
        assert_eq!(allowed, None);
    }
}

/// The HTTP client that the exporter is given.
#[derive(Debug)]
struct Client(reqwest::Client);

#[tonic::async_trait]
impl opentelemetry_http::HttpClient for Client {
    async fn send_bytes(
        &self,
        request: ::http::Request<Bytes>,
    ) -> Result<::http::Response<Bytes>, opentelemetry_http::HttpError> {
        let response = self.0.execute(request.try_into()?).await?;
        let status = response.status();
        let mut answer = ::http::Response::new(response.bytes().await?);
        *answer.status_mut() = status;
        Ok(answer)
    }
}

#[tokio::test]
async fn the_exporter_of_the_opentelemetry_sdk_is_understood() {
    let receiver = start();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", receiver.endpoint()))
        .with_http_client(Client(client()))
        .build()
        .unwrap();
    let trace = prefix().trace(42);
    let span = SpanData {
        span_context: SpanContext::new(
            trace.0.into(),
            7.into(),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: 6.into(),
        parent_span_is_remote: true,
        span_kind: SpanKind::Server,
        name: "GET /users".into(),
        start_time: SystemTime::UNIX_EPOCH,
        end_time: SystemTime::UNIX_EPOCH + Duration::from_millis(3),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::error("no"),
        instrumentation_scope: InstrumentationScope::default(),
    };
    exporter.export(vec![span]).await.unwrap();
    let traces = finished(&receiver);
    let span = &traces[0].spans[0];
    assert_eq!((span.trace, span.id, span.parent), (trace, SpanId(7), Some(SpanId(6))));
    assert_eq!((&*span.name, span.end_ns - span.start_ns, span.error), ("GET /users", 3_000_000, true));
}

#[tokio::test]
async fn a_trace_is_handed_over_once_it_is_quiet_and_what_comes_then_is_late() {
    let receiver = start();
    let root = iteration(5, 1).raw;
    let root = opentelemetry_proto::tonic::trace::v1::Span::decode(&*root.bytes).unwrap();
    post(&receiver, Signal::Traces, of_scenario(vec![root]).encode_to_vec()).await;
    post(&receiver, Signal::Traces, of_service(vec![proto(5, 2, "a")]).encode_to_vec()).await;
    let progress = receiver.progress();
    assert_eq!((progress.open, progress.spans), (1, 2));
    let last = progress.last_arrival.unwrap();
    let mut swept = Vec::new();
    receiver.sweep(last, |trace| swept.push(trace));
    assert!(swept.is_empty());
    receiver.sweep(last + QUIET, |trace| swept.push(trace));
    assert_eq!((swept.len(), swept[0].id, swept[0].rooted), (1, prefix().trace(5), true));
    post(&receiver, Signal::Traces, of_service(vec![proto(5, 3, "b")]).encode_to_vec()).await;
    let counts = receiver.stop(Duration::ZERO);
    assert_eq!((counts.spans_kept, counts.spans_late), (2, 1));
}

#[tokio::test]
async fn a_flood_of_foreign_spans_is_counted_and_leaves_room_for_ours() {
    const BATCHES: u64 = 40;
    const SPANS: u64 = 2_000;
    let receiver = start();
    let flood: Bytes = of_service((1..=SPANS).map(foreign).collect()).encode_to_vec().into();
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..BATCHES {
        let (flood, url) = (flood.clone(), format!("{}/v1/traces", receiver.endpoint()));
        senders.spawn(async move {
            client().post(url).header(CONTENT_TYPE, PROTOBUF).body(flood).send().await.unwrap().status()
        });
    }
    let ours = of_service(vec![proto(1, 1, "ours")]).encode_to_vec();
    assert_eq!(post(&receiver, Signal::Traces, ours).await, StatusCode::OK);
    assert!(senders.join_all().await.iter().all(|status| *status == StatusCode::OK));
    let counts = receiver.counts();
    assert_eq!((counts.spans_foreign, counts.spans_kept), (BATCHES * SPANS, 1));
    assert_eq!(receiver.progress().open, 1, "nothing of the flood is held");
}

#[tokio::test]
async fn a_flood_of_our_own_traces_is_refused_by_whole_traces_within_the_budget() {
    let budget = 256 << 10;
    let receiver = Receiver::start(Options {
        port: None,
        run: run(),
        trace_prefix: prefix(),
        store_bytes: budget,
        quiet: QUIET,
        forward: None,
    })
    .unwrap();
    let names = "x".repeat(1000);
    for batch in 0..20 {
        let spans =
            (0..100).flat_map(|n| [proto(batch * 100 + n, 1, &names), proto(batch * 100 + n, 2, &names)]);
        post(&receiver, Signal::Traces, of_service(spans.collect()).encode_to_vec()).await;
    }
    let traces = finished(&receiver);
    assert!(traces.iter().all(|trace| trace.spans.len() == 2), "no trace is kept in part");
    let bytes: usize =
        traces.iter().flat_map(|trace| trace.raw.iter().flatten()).map(|raw| raw.bytes.len()).sum();
    assert!(bytes <= budget && !traces.is_empty());
    let counts = receiver.counts();
    assert_eq!(counts.spans_kept + counts.spans_refused, 4_000);
    assert_eq!(counts.spans_kept, 2 * traces.len() as u64);
    assert!(traces.iter().all(|trace| trace.id > TraceId(0)));
}
