//! Metrics: what they count is what the summary counts.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, Metric};

use crate::server::Server;
use crate::sink::{Sink, text};
use crate::tool::run;

fn durations(metrics: &[Metric], name: &str) -> Vec<ExponentialHistogramDataPoint> {
    let metric = metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(metric.unit, "s");
    match &metric.data {
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn metrics_come_each_second_and_end_with_the_counts_of_the_summary() {
    for protocol in ["http/protobuf", "grpc"] {
        let (server, sink) = (Server::start(), Sink::start());
        let ended = run(&["steady", "--duration", "3s", "--otlp-endpoint", &sink.url(), "--trace", "all"])
            .against(&server.url())
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .finish();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let step = &summary["steps"][0];
        assert_eq!(step["step"], "GET /count");

        let all: Vec<ExponentialHistogramDataPoint> = sink
            .metrics()
            .iter()
            .flat_map(|metrics| durations(metrics, "http.client.request.duration"))
            .collect();
        assert!(all.len() >= 3, "one a second and one at the end, of 3 s: {}", all.len());
        assert!(all.iter().is_sorted_by_key(|point| point.count), "they are cumulative");
        assert!(all.iter().all(|point| point.start_time_unix_nano == all[0].start_time_unix_nano));
        let last = all.iter().max_by_key(|point| point.time_unix_nano).unwrap();
        assert_eq!(Some(last.count), step["count"].as_u64());
        let buckets: u64 = last.positive.iter().flat_map(|positive| &positive.bucket_counts).sum();
        assert_eq!(buckets + last.zero_count, last.count);
        assert_eq!(text(&last.attributes, "http.request.method"), "GET");
        assert_eq!(text(&last.attributes, "url.template"), "/count");
        assert_eq!(text(&last.attributes, "loadtest.scenario"), "steady");
        let mean_ms = last.sum.unwrap() / last.count as f64 * 1e3;
        let told = step["latency_ms"]["mean"].as_f64().unwrap();
        assert!(
            (mean_ms - told).abs() < 0.01 * told + 0.001,
            "{mean_ms} ms in seconds, {told} ms in the summary"
        );

        let traced: BTreeSet<Vec<u8>> = sink
            .spans("loadtest")
            .into_iter()
            .filter(|span| span.name == "GET /count")
            .map(|span| span.trace_id)
            .collect();
        let exemplars: Vec<_> = all.iter().flat_map(|point| &point.exemplars).collect();
        assert!(!exemplars.is_empty());
        assert!(exemplars.iter().all(|exemplar| traced.contains(&exemplar.trace_id)));
    }
}
