//! OTLP/gRPC, with the clients that tonic generates.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use super::super::server::MESSAGE_LIMIT;
use super::*;

async fn traces(receiver: &Receiver) -> TraceServiceClient<Channel> {
    TraceServiceClient::connect(receiver.endpoint()).await.unwrap()
}

#[tokio::test]
async fn all_signals_are_taken() {
    let receiver = start();
    let request = of_service(vec![proto(1, 1, "a"), foreign(2)]);
    let answer = traces(&receiver).await.export(request).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);
    let mut metrics = MetricsServiceClient::connect(receiver.endpoint()).await.unwrap();
    metrics.export(ExportMetricsServiceRequest::default()).await.unwrap();
    let mut logs = LogsServiceClient::connect(receiver.endpoint()).await.unwrap();
    logs.export(ExportLogsServiceRequest::default()).await.unwrap();
    let want = ReceiverCounts { requests: 3, spans_kept: 1, spans_foreign: 1, ..ReceiverCounts::default() };
    assert_eq!(stopped(receiver).await, want);
}

#[tokio::test]
async fn compressed_requests_are_taken() {
    let receiver = start();
    for (trace, encoding) in [(1, CompressionEncoding::Gzip), (2, CompressionEncoding::Zstd)] {
        let mut client = traces(&receiver).await.send_compressed(encoding);
        client.export(of_service(vec![proto(trace, 1, "a")])).await.unwrap();
    }
    assert_eq!(finished(&receiver).len(), 2);
}

#[tokio::test]
async fn a_request_of_many_megabytes_is_taken_and_one_above_the_limit_is_refused_for_good() {
    let receiver = start();
    let large = of_service(vec![super::foreign(1); 100_000]);
    assert!(large.encoded_len() > 4 << 20);
    traces(&receiver).await.export(large).await.unwrap();
    assert_eq!(receiver.counts().spans_foreign, 100_000);

    let too_large = of_service(vec![proto(1, 1, &"x".repeat(MESSAGE_LIMIT))]);
    let compressed = traces(&receiver).await.send_compressed(CompressionEncoding::Gzip);
    for mut client in [traces(&receiver).await, compressed] {
        let status = client.export(too_large.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
    let counts = receiver.counts();
    assert_eq!((counts.requests, counts.requests_refused, counts.spans_kept), (3, 2, 0));
}

#[tokio::test]
async fn malformed_calls_get_a_status_and_are_counted() {
    let receiver = start();
    let client = builder().http2_prior_knowledge().build().unwrap();
    let frame = |flag: u8, message: &[u8]| {
        let mut frame = vec![flag];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        frame
    };
    let cut_off = {
        let mut bytes = gzip(&[0; 1000]);
        bytes.truncate(bytes.len() / 2);
        bytes
    };
    for (path, encoding, body, want) in [
        (Signal::Traces.grpc_path(), "identity", frame(0, &[0xff; 20]), Code::InvalidArgument),
        (Signal::Metrics.grpc_path(), "identity", frame(0, &[0x0a, 9]), Code::InvalidArgument),
        (Signal::Traces.grpc_path(), "gzip", frame(1, &cut_off), Code::Internal),
        (Signal::Traces.grpc_path(), "identity", frame(7, &[]), Code::Internal),
        (Signal::Traces.grpc_path(), "snappy", frame(1, &[]), Code::Unimplemented),
        (
            "/opentelemetry.proto.collector.trace.v1.TraceService/Import",
            "identity",
            frame(0, &[]),
            Code::Unimplemented,
        ),
        ("/grpc.health.v1.Health/Check", "identity", frame(0, &[]), Code::Unimplemented),
    ] {
        let response = client
            .post(format!("{}{path}", receiver.endpoint()))
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers")
            .header("grpc-encoding", encoding)
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), want, "{path} {encoding}: {status}");
    }
    let counts = receiver.counts();
    assert_eq!((counts.requests, counts.requests_refused, counts.requests_malformed), (7, 7, 4));
}

#[tokio::test]
async fn http_and_grpc_clients_share_the_port_at_the_same_time() {
    let receiver = start();
    let mut grpc = traces(&receiver).await;
    for trace in 1..20 {
        grpc.export(of_service(vec![proto(trace, 1, "a")])).await.unwrap();
        let body = of_service(vec![proto(trace, 2, "b")]).encode_to_vec();
        assert_eq!(post(&receiver, Signal::Traces, body).await, StatusCode::OK);
    }
    assert!(finished(&receiver).iter().all(|trace| trace.spans.len() == 2));
}
