//! Exactly what leaves the tool: names, units, kinds, values and attributes of metrics, and the author's tags.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, NumberDataPoint};

use crate::server::Server;
use crate::sink::{Sink, text};
use crate::tool::{Ended, run};

/// Runs the scenario `metered`: two users, ten iterations each, over some two seconds.
fn metered() -> (Sink, Ended) {
    let (server, sink) = (Server::start(), Sink::start());
    let ended = run(&["metered", "--otlp-endpoint", &sink.url(), "--trace", "all"])
        .against(&server.url())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .finish();
    assert_eq!(ended.code(), 0, "{}\n{}", ended.stdout, ended.stderr);
    (sink, ended)
}

/// What OpenTelemetry takes the metric for. Whatever adds up is cumulative.
fn kind(metric: &Metric) -> &'static str {
    let cumulative = AggregationTemporality::Cumulative as i32;
    match metric.data.as_ref().unwrap() {
        Data::Gauge(_) => "gauge",
        Data::Sum(sum) => {
            assert_eq!(sum.aggregation_temporality, cumulative, "{}", metric.name);
            if sum.is_monotonic { "counter" } else { "up-down counter" }
        }
        Data::ExponentialHistogram(histogram) => {
            assert_eq!(histogram.aggregation_temporality, cumulative, "{}", metric.name);
            "histogram"
        }
        other => panic!("{} is {other:?}", metric.name),
    }
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => &sum.data_points,
        other => panic!("{} is {other:?}", metric.name),
    }
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value.unwrap() {
        Value::AsDouble(value) => value,
        Value::AsInt(value) => value as f64,
    }
}

fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    of.iter().map(|attribute| (attribute.key.clone(), text(of, &attribute.key))).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The points of the last export: attributes and value.
fn last(sink: &Sink, name: &str) -> Vec<(BTreeMap<String, String>, f64)> {
    let all = sink.metrics("loadtest", name);
    let metric = all.last().unwrap_or_else(|| panic!("no {name}"));
    points(metric).iter().map(|point| (attributes(&point.attributes), number(point))).collect()
}

#[test]
fn metrics_have_these_names_units_and_kinds_and_no_others() {
    let (sink, _) = metered();
    let shape = |(_, metric): (_, Metric)| (metric.name.clone(), metric.unit.clone(), kind(&metric));
    let of = |service: &str| sink.all_metrics(service).into_iter().map(shape).collect::<BTreeSet<_>>();
    let named = |all: &[(&str, &str, &'static str)]| -> BTreeSet<_> {
        all.iter().map(|(name, unit, kind)| ((*name).to_owned(), (*unit).to_owned(), *kind)).collect()
    };
    let of_processes = named(&[
        ("loadtest.process.runqueue_wait", "1", "gauge"),
        ("process.cpu.utilization", "1", "gauge"),
        ("process.memory.usage", "By", "up-down counter"),
        ("process.open_file_descriptor.count", "{file_descriptor}", "up-down counter"),
    ]);
    let of_load = named(&[
        ("http.client.request.duration", "s", "histogram"),
        ("loadtest.checks", "{check}", "counter"),
        ("loadtest.custom.hit", "1", "counter"),
        ("loadtest.custom.orders_placed", "1", "counter"),
        ("loadtest.custom.queue", "1", "gauge"),
        ("loadtest.custom.render", "ms", "histogram"),
        ("loadtest.custom.size", "1", "histogram"),
        ("loadtest.http.duration", "s", "histogram"),
        ("loadtest.http.phase.duration", "s", "histogram"),
        ("loadtest.http.retries", "{request}", "counter"),
        ("loadtest.iteration.duration", "s", "histogram"),
        ("loadtest.iteration.lag", "s", "histogram"),
        ("loadtest.iteration.response.duration", "s", "histogram"),
        ("loadtest.iterations", "{iteration}", "counter"),
        ("loadtest.requests", "{request}", "counter"),
        ("loadtest.step.duration", "s", "histogram"),
        ("loadtest.vus", "{user}", "gauge"),
    ]);
    assert_eq!(of("cargo-loadtest"), of_processes);
    assert_eq!(of("loadtest"), &of_load | &of_processes);
}

#[test]
fn the_authors_metrics_are_what_was_recorded_by_scenario_and_cumulative() {
    let (sink, ended) = metered();
    let scenario = map(&[("loadtest.scenario", "metered")]);
    assert_eq!(last(&sink, "loadtest.custom.orders_placed"), [(scenario.clone(), 50.0)]);
    assert_eq!(last(&sink, "loadtest.custom.queue"), [(scenario.clone(), -4.0)]);
    let outcome = |outcome| map(&[("loadtest.scenario", "metered"), ("loadtest.outcome", outcome)]);
    assert_eq!(last(&sink, "loadtest.custom.hit"), [(outcome("held"), 6.0), (outcome("not-held"), 14.0)]);
    assert_eq!(
        last(&sink, "loadtest.iterations"),
        [
            (outcome("ok"), 20.0),
            (outcome("failed"), 0.0),
            (outcome("interrupted"), 0.0),
            (outcome("dropped"), 0.0)
        ]
    );

    // (name, sum, least, most, of nought)
    for (name, sum, least, most, nought) in
        [("loadtest.custom.size", 90.0, 0.0, 9.0, 2), ("loadtest.custom.render", 60.0, 3.0, 3.0, 0)]
    {
        let all = sink.metrics("loadtest", name);
        let Some(Data::ExponentialHistogram(histogram)) = &all.last().unwrap().data else { panic!("{name}") };
        let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(attributes(&point.attributes), scenario, "{name}");
        assert_eq!((point.count, point.sum, point.zero_count), (20, Some(sum), nought), "{name}");
        assert_eq!((point.min, point.max), (Some(least), Some(most)), "{name}");
        let (positive, negative) = (point.positive.as_ref().unwrap(), point.negative.as_ref().unwrap());
        assert!(negative.bucket_counts.iter().all(|count| *count == 0), "{negative:?}");
        // Each value is where the data model has it: in (base^i, base^(i+1)], give or take what buckets are exact to.
        let base = 2_f64.powf(2_f64.powi(-point.scale));
        let values: Vec<f64> =
            if nought > 0 { (1..10).flat_map(|n| [f64::from(n); 2]).collect() } else { vec![3.0; 20] };
        assert_eq!(positive.bucket_counts.iter().sum::<u64>(), values.len() as u64, "{name}");
        for (at, count) in positive.bucket_counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let lowest = base.powi(positive.offset + at as i32);
            let within = |value: &&f64| **value > lowest / 1.001 && **value <= lowest * base * 1.001;
            let fit = values.iter().filter(within).count() as u64;
            assert!(fit >= *count, "{count} above {lowest}: {positive:?}");
        }
    }

    // From export to export nothing gets less, and all are counted from one instant.
    let orders = sink.metrics("loadtest", "loadtest.custom.orders_placed");
    assert!(orders.len() >= 2, "{}", orders.len());
    let orders: Vec<&NumberDataPoint> = orders.iter().map(|metric| &points(metric)[0]).collect();
    assert!(
        orders.iter().is_sorted_by_key(|point| (point.time_unix_nano, number(point) as u64)),
        "{orders:?}"
    );
    assert!(orders.iter().all(|point| point.start_time_unix_nano == orders[0].start_time_unix_nano));
    assert!(orders[0].start_time_unix_nano > 0 && orders[0].start_time_unix_nano < orders[0].time_unix_nano);

    // The summary has the same.
    let summary = ended.summary();
    let told = |name: &str, figure: &str| {
        let metrics = summary["metrics"].as_array().unwrap();
        metrics.iter().find(|it| it["name"] == name).unwrap()[figure].as_f64()
    };
    assert_eq!((told("orders placed", "sum"), told("queue", "value")), (Some(50.0), Some(-4.0)));
    assert_eq!((told("hit", "held"), told("hit", "count")), (Some(6.0), Some(20.0)));
    assert_eq!((told("size", "mean"), told("render", "mean")), (Some(4.5), Some(3.0)));
}

#[test]
fn tags_of_scenario_iteration_and_request_are_attributes_of_the_spans_they_belong_to() {
    let (sink, _) = metered();
    let spans = sink.spans("loadtest");
    let mut seen = BTreeMap::<String, usize>::new();
    for span in &spans {
        let tags: BTreeMap<String, String> = attributes(&span.attributes)
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("loadtest.tag.")?.to_owned(), value)))
            .collect();
        let name = span.name.as_str();
        let root = spans.iter().find(|root| {
            root.trace_id == span.trace_id && text(&root.attributes, "loadtest.role") == "iteration"
        });
        let Some(root) = root else {
            // The span of the run belongs to no iteration.
            assert!(tags.is_empty(), "{span:?}");
            continue;
        };
        let n: u64 = text(&root.attributes, "loadtest.iteration").parse().unwrap();
        let parity = if n.is_multiple_of(2) { "even" } else { "odd" };
        let mut want = map(&[("zone", "north"), ("parity", parity)]);
        if name == "GET /count" {
            want.insert("kind".to_owned(), "reading".to_owned());
        }
        assert_eq!(tags, want, "{name} of iteration {n}");
        *seen.entry(name.to_owned()).or_default() += 1;
    }
    let each = ["GET /count", "POST /count", "iteration metered", "read"];
    assert_eq!(seen, each.map(|name| (name.to_owned(), 20)).into());
    // A series for each combination of tags would cost whoever stores them: metrics have none.
    for (_, metric) in sink.all_metrics("loadtest") {
        let Some(Data::Sum(sum)) = &metric.data else { continue };
        let keys = sum.data_points.iter().flat_map(|point| &point.attributes).map(|it| &it.key);
        assert!(keys.into_iter().all(|key| !key.starts_with("loadtest.tag.")), "{metric:?}");
    }
}

#[test]
fn what_processes_use_is_told_once_a_second_by_process_and_run() {
    let (sink, ended) = metered();
    let summary = ended.summary();
    let run = summary["run"]["id"].as_str().unwrap();
    let mut pids = BTreeSet::new();
    for service in ["cargo-loadtest", "loadtest"] {
        let mut told = BTreeMap::<String, Vec<(u64, u64)>>::new();
        let mut of_service = BTreeSet::new();
        for (resource, metric) in sink.all_metrics(service) {
            let is_of_process = metric.name.starts_with("process.") || metric.name.contains(".process.");
            if !is_of_process {
                continue;
            }
            let pid = text(&resource, "process.pid");
            assert_eq!(text(&resource, "service.instance.id"), format!("{run}-{pid}"));
            assert_eq!(text(&resource, "loadtest.run.id"), run);
            of_service.insert(pid);
            let [point] = points(&metric) else { panic!("{metric:?}") };
            assert!(point.attributes.is_empty(), "{metric:?}");
            assert!(number(point) >= 0.0, "{metric:?}");
            told.entry(metric.name.clone())
                .or_default()
                .push((point.start_time_unix_nano, point.time_unix_nano));
        }
        assert_eq!(of_service.len(), 1, "{service}");
        pids.extend(of_service);
        for (name, times) in told {
            assert!(times.iter().all(|(start, at)| *start == times[0].0 && start < at), "{name}: {times:?}");
            assert!(times.is_sorted_by(|(_, a), (_, b)| a < b), "{name}: {times:?}");
        }
    }
    assert_eq!(pids.len(), 2, "{pids:?}");
}
