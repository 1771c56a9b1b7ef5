//! Metrics: what they count is what the summary counts.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, Metric};

use crate::server::Server;
use crate::sink::{Sink, text};
use crate::tool::run;

fn durations(metric: &Metric) -> Vec<ExponentialHistogramDataPoint> {
    assert_eq!(metric.unit, "s");
    match &metric.data {
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.clone(),
        other => panic!("{} is {other:?}", metric.name),
    }
}

/// The values of a metric with one point, gauge or up-down counter.
fn values(metrics: &[Metric]) -> Vec<f64> {
    let value = |metric: &Metric| {
        let points = match &metric.data {
            Some(Data::Gauge(gauge)) => &gauge.data_points,
            Some(Data::Sum(sum)) if !sum.is_monotonic => &sum.data_points,
            other => panic!("{} is {other:?}", metric.name),
        };
        let [point] = points.as_slice() else { panic!("{points:?}") };
        match point.value {
            Some(Value::AsDouble(value)) => value,
            Some(Value::AsInt(value)) => value as f64,
            None => panic!("{} has no value", metric.name),
        }
    };
    metrics.iter().map(value).collect()
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

        let all: Vec<ExponentialHistogramDataPoint> =
            sink.metrics("loadtest", "http.client.request.duration").iter().flat_map(durations).collect();
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
        // The tool's own: what each process used, as the summary has it.
        let process = |at: usize| &summary["health"]["processes"][at];
        for (at, service) in ["cargo-loadtest", "loadtest"].into_iter().enumerate() {
            assert_eq!(process(at)["name"], service);
            for (name, unit, most) in [
                ("process.cpu.utilization", "1", &process(at)["cpu_share_max"]),
                ("process.memory.usage", "By", &process(at)["rss_bytes_max"]),
                ("process.open_file_descriptor.count", "{file_descriptor}", &process(at)["open_files_max"]),
            ] {
                let metrics = sink.metrics(service, name);
                assert!(metrics.len() >= 2, "{name} of {service}, each second of 3 s: {}", metrics.len());
                assert!(metrics.iter().all(|metric| metric.unit == unit), "{name}");
                let highest = values(&metrics).into_iter().fold(0.0, f64::max);
                let told = most.as_f64().unwrap();
                // What is left of a second at the end is in the summary alone, and may be where most was open.
                assert!(
                    highest <= told && highest > 0.0,
                    "{name} of {service}: {highest}, {told} in the summary"
                );
                assert!(unit != "1" || (highest - told).abs() < 1e-9, "{name}: {highest}, {told}");
            }
        }

        let exemplars: Vec<_> = all.iter().flat_map(|point| &point.exemplars).collect();
        assert!(!exemplars.is_empty());
        assert!(exemplars.iter().all(|exemplar| traced.contains(&exemplar.trace_id)));
    }
}
