//! Forwarding: what arrives at the target, and what a bad target does to the receiver (nothing).

use ::http::header::RETRY_AFTER;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;

use super::super::forward::{ForwardError, ForwardProtocol};
use super::super::{ReceiveError, forward};
use super::*;

const OK: (StatusCode, Vec<(HeaderName, &str)>) = (StatusCode::OK, Vec::new());

fn to(protocol: ForwardProtocol, address: SocketAddr) -> ForwardOptions {
    ForwardOptions::all_to(protocol, &format!("http://{address}"))
}

fn with_headers(options: &mut ForwardOptions, headers: &[(&str, &str)]) {
    for endpoint in options.endpoints.values_mut() {
        endpoint.headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    }
}

/// An export request with a field that no version of the protocol has.
fn with_unknown_field(trace: u64) -> Vec<u8> {
    let mut bytes = of_service(vec![proto(trace, 1, "a"), foreign(2)]).encode_to_vec();
    bytes.extend([0x9a, 0x06, 3, 1, 2, 3]);
    bytes
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

fn grpc_ok() -> (StatusCode, Vec<(HeaderName, &'static str)>) {
    let status = HeaderName::from_static("grpc-status");
    (StatusCode::OK, vec![(CONTENT_TYPE, "application/grpc"), (status, "0")])
}

#[tokio::test]
async fn every_signal_is_forwarded_over_http_byte_for_byte_with_the_configured_headers() {
    let (address, captured) = capture(vec![OK]).await;
    let mut options = to(ForwardProtocol::Http, address);
    with_headers(&mut options, &[("x-api-key", "canary")]);
    assert!(!format!("{options:?}").contains("canary"));
    let receiver = start_with(Some(options));
    let body = with_unknown_field(1);
    for signal in Signal::ALL {
        assert_eq!(post(&receiver, signal, body.clone()).await, StatusCode::OK);
    }
    let json = r#"{ "resourceSpans" : null, "unknown_field": 1 }"#;
    let url = format!("{}/v1/traces", receiver.endpoint());
    let sent = client().post(url).header(CONTENT_TYPE, "application/json; charset=utf-8").body(json);
    assert_eq!(sent.send().await.unwrap().status(), StatusCode::OK);
    eventually("forwarding", || receiver.counts().forwarded == 4).await;

    let mut got: Vec<_> = captured.lock().unwrap().drain(..).collect();
    got.sort_by_key(|(path, _, body)| (path.clone(), body.len()));
    let got: Vec<_> = got
        .iter()
        .map(|(path, headers, body)| {
            assert_eq!(headers["x-api-key"], "canary");
            (path.as_str(), headers[CONTENT_TYPE].to_str().unwrap(), &body[..])
        })
        .collect();
    let want = [
        ("/v1/logs", PROTOBUF, &body[..]),
        ("/v1/metrics", PROTOBUF, &body[..]),
        ("/v1/traces", JSON, json.as_bytes()),
        ("/v1/traces", PROTOBUF, &body[..]),
    ];
    assert_eq!(got, want);
}

#[tokio::test]
async fn what_came_over_http_is_forwarded_over_grpc_byte_for_byte() {
    let (address, captured) = capture(vec![grpc_ok()]).await;
    let receiver = start_with(Some(to(ForwardProtocol::Grpc, address)));
    let body = with_unknown_field(1);
    for signal in Signal::ALL {
        assert_eq!(post(&receiver, signal, body.clone()).await, StatusCode::OK);
    }
    eventually("forwarding", || receiver.counts().forwarded == 3).await;
    let mut got: Vec<_> = captured.lock().unwrap().drain(..).map(|(path, _, body)| (path, body)).collect();
    got.sort();
    let mut want: Vec<_> =
        Signal::ALL.map(|signal| (signal.grpc_path().to_owned(), Bytes::from(framed(&body)))).into();
    want.sort();
    assert_eq!(got, want);
}

#[tokio::test]
async fn what_came_over_grpc_reaches_another_receiver_over_either_protocol() {
    for protocol in [ForwardProtocol::Grpc, ForwardProtocol::Http] {
        let target = start();
        let receiver = start_with(Some(to(protocol, target.address())));
        let mut grpc = TraceServiceClient::connect(receiver.endpoint()).await.unwrap();
        grpc.export(of_service(vec![proto(1, 1, "a"), foreign(2)])).await.unwrap();
        eventually("forwarding", || receiver.counts().forwarded == 1).await;
        assert_eq!((target.counts().spans_kept, target.counts().spans_foreign), (1, 1), "{protocol:?}");
    }
}

#[tokio::test]
async fn json_that_goes_on_over_grpc_becomes_protobuf() {
    let target = start();
    let receiver = start_with(Some(to(ForwardProtocol::Grpc, target.address())));
    let body = serde_json::to_vec(&of_service(vec![proto(1, 1, "a")])).unwrap();
    let url = format!("{}/v1/traces", receiver.endpoint());
    client().post(url).header(CONTENT_TYPE, JSON).body(body).send().await.unwrap();
    eventually("forwarding", || target.counts().spans_kept == 1).await;
}

#[tokio::test]
async fn two_targets_are_sent_the_headers_of_their_own_signal_alone() {
    for (protocol, answer) in [(ForwardProtocol::Http, OK), (ForwardProtocol::Grpc, grpc_ok())] {
        let (spans_at, spans) = capture(vec![answer.clone()]).await;
        let (metrics_at, metrics) = capture(vec![answer]).await;
        let endpoint = |address, headers: &[(&str, &str)]| {
            let mut options = to(protocol, address);
            with_headers(&mut options, headers);
            options.endpoints
        };
        let mut options = to(protocol, spans_at);
        options.endpoints = endpoint(spans_at, &[("x-api-key", "of-spans")]);
        let of_metrics = endpoint(metrics_at, &[("x-token", "of-metrics")]);
        options.endpoints.extend(of_metrics.into_iter().filter(|(signal, _)| *signal == Signal::Metrics));
        let receiver = start_with(Some(options));
        for signal in [Signal::Traces, Signal::Metrics] {
            assert_eq!(post(&receiver, signal, with_unknown_field(1)).await, StatusCode::OK);
        }
        eventually("forwarding", || receiver.counts().forwarded == 2).await;
        let secrets = |captured: &Captured| {
            let captured = captured.lock().unwrap();
            let header = |headers: &HeaderMap, name: &str| {
                headers.get(name).map(|value| value.to_str().unwrap().to_owned())
            };
            let each = captured.iter();
            each.map(|(_, headers, _)| (header(headers, "x-api-key"), header(headers, "x-token")))
                .collect::<Vec<_>>()
        };
        assert_eq!(secrets(&spans), [(Some("of-spans".to_owned()), None)], "{protocol:?}");
        assert_eq!(secrets(&metrics), [(None, Some("of-metrics".to_owned()))], "{protocol:?}");
    }
}

#[tokio::test]
async fn only_signals_with_an_endpoint_are_forwarded() {
    let (address, captured) = capture(vec![OK]).await;
    let mut options = to(ForwardProtocol::Http, address);
    options.endpoints.retain(|signal, _| *signal == Signal::Metrics);
    let receiver = start_with(Some(options));
    for signal in Signal::ALL {
        post(&receiver, signal, "").await;
    }
    let counts = stopped(receiver).await;
    assert_eq!((counts.forwarded, counts.forward_dropped), (1, 0));
    assert_eq!(captured.lock().unwrap()[0].0, "/v1/metrics");
}

#[tokio::test]
async fn a_refused_request_is_not_forwarded() {
    let (address, captured) = capture(vec![OK]).await;
    let receiver = start_with(Some(to(ForwardProtocol::Http, address)));
    assert_eq!(post(&receiver, Signal::Logs, vec![0xff]).await, StatusCode::BAD_REQUEST);
    stopped(receiver).await;
    assert!(captured.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_the_target_cannot_take_now_is_sent_again_and_what_it_refuses_is_not() {
    let status = |code: u16| (StatusCode::from_u16(code).unwrap(), vec![(RETRY_AFTER, "0")]);
    let grpc = |code| (StatusCode::OK, vec![(HeaderName::from_static("grpc-status"), code)]);
    for (protocol, answers, attempts, forwarded) in [
        (ForwardProtocol::Http, vec![status(503), status(429), status(200)], 3, 1),
        (ForwardProtocol::Http, vec![status(400)], 1, 0),
        (ForwardProtocol::Http, vec![status(500)], 1, 0),
        (ForwardProtocol::Grpc, vec![grpc("14"), grpc("0")], 2, 1),
        (ForwardProtocol::Grpc, vec![grpc("3")], 1, 0),
        (ForwardProtocol::Grpc, vec![grpc("8")], 1, 0),
    ] {
        let (address, captured) = capture(answers.clone()).await;
        let receiver = start_with(Some(to(protocol, address)));
        post(&receiver, Signal::Traces, "").await;
        let counts = stopped(receiver).await;
        assert_eq!(captured.lock().unwrap().len(), attempts, "{protocol:?} {answers:?}");
        assert_eq!((counts.forwarded, counts.forward_failed), (forwarded, 1 - forwarded), "{answers:?}");
    }
}

#[tokio::test]
async fn a_target_that_is_not_there_is_given_up() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for protocol in [ForwardProtocol::Http, ForwardProtocol::Grpc] {
        let mut options = to(protocol, nobody);
        options.give_up_after = Duration::from_millis(50);
        let receiver = start_with(Some(options));
        assert_eq!(post(&receiver, Signal::Traces, "").await, StatusCode::OK);
        eventually("giving up", || receiver.counts().forward_failed == 1).await;
    }
}

#[tokio::test]
async fn a_target_that_should_speak_tls_is_sent_nothing_in_the_clear() {
    for protocol in [ForwardProtocol::Http, ForwardProtocol::Grpc] {
        let (address, captured) = capture(vec![grpc_ok()]).await;
        let mut options = ForwardOptions::all_to(protocol, &format!("https://{address}"));
        options.give_up_after = Duration::from_millis(200);
        let receiver = start_with(Some(options));
        assert_eq!(post(&receiver, Signal::Traces, "").await, StatusCode::OK);
        eventually("giving up", || receiver.counts().forward_failed == 1).await;
        assert!(captured.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_target_that_never_answers_holds_up_nothing_and_all_is_counted() {
    const REQUESTS: u64 = 50;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for protocol in [ForwardProtocol::Http, ForwardProtocol::Grpc] {
        let receiver = start_with(Some(to(protocol, listener.local_addr().unwrap())));
        for trace in 1..=REQUESTS {
            let body = of_service(vec![proto(trace, 1, "a")]).encode_to_vec();
            assert_eq!(post(&receiver, Signal::Traces, body).await, StatusCode::OK);
        }
        assert_eq!(receiver.counts().spans_kept, REQUESTS);
        let counts = receiver.stop(Duration::ZERO);
        assert_eq!((counts.forwarded, counts.forward_failed, counts.forward_dropped), (0, 0, REQUESTS));
    }
}

#[tokio::test]
async fn the_queue_is_bounded_in_bytes_and_what_does_not_fit_is_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = start_with(Some(to(ForwardProtocol::Http, listener.local_addr().unwrap())));
    // A log record of 20 MiB: three fit into the queue.
    let mut body = Vec::new();
    let mut inner = vec![0; 20 << 20];
    for tag in [0x2a, 0x12, 0x12, 0x0a] {
        body = vec![tag];
        prost::encode_length_delimiter(inner.len(), &mut body).unwrap();
        body.append(&mut inner);
        inner = body.clone();
    }
    let body = Bytes::from(body);
    for _ in 0..5 {
        assert_eq!(post(&receiver, Signal::Logs, body.clone()).await, StatusCode::OK);
    }
    assert_eq!(receiver.counts().forward_dropped, 2);
    assert_eq!(receiver.stop(Duration::ZERO).forward_dropped, 5);
}

#[test]
fn what_cannot_be_forwarded_to_is_said_at_the_start() {
    let start = |endpoint: &str, headers: &[(&str, &str)]| {
        let mut options = ForwardOptions::all_to(ForwardProtocol::Http, endpoint);
        with_headers(&mut options, headers);
        let forward = Some(options);
        Receiver::start(Options {
            port: None,
            run: run(),
            trace_prefix: prefix(),
            store_bytes: 1,
            quiet: QUIET,
            forward,
        })
    };
    for (endpoint, headers, part) in [
        ("127.0.0.1:4317", &[][..], "http:// or https://"),
        ("ftp://host", &[], "http:// or https://"),
        ("unix://canary@host/sock", &[], "http:// or https://"),
        ("", &[], "http:// or https://"),
        ("http://host", &[("a b", "canary")], "`a b`"),
        ("http://host", &[("authorization", "can\nary")], "`authorization`"),
    ] {
        let error = start(endpoint, headers).unwrap_err();
        assert!(matches!(error, ReceiveError::Forward(_)));
        let message = error.to_string();
        assert!(message.contains(part) && !message.contains("canary"), "{message}");
    }
}

#[test]
fn forwarding_to_ourselves_is_a_mistake() {
    let ours: SocketAddr = "127.0.0.1:4318".parse().unwrap();
    for (endpoint, is_loop) in [
        ("http://127.0.0.1:4318", true),
        ("http://localhost:4318", true),
        ("http://0.0.0.0:4318", true),
        ("http://[::1]:4318", true),
        ("http://127.0.0.1:4317", false),
        ("http://127.0.0.1", false),
        ("http://192.0.2.1:4318", false),
    ] {
        let started = forward::Forwarder::start(
            &ForwardOptions::all_to(ForwardProtocol::Grpc, endpoint),
            ours,
            Arc::default(),
        );
        match started {
            Ok((forwarder, _queue)) => {
                assert!(!is_loop, "{endpoint}");
                forwarder.stop(Duration::ZERO);
            }
            Err(error) => assert!(is_loop && matches!(error, ForwardError::Loop { .. }), "{endpoint}"),
        }
    }
}
