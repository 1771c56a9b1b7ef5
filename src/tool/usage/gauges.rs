//! A second of load as OTLP metrics: one resource a process, named as OpenTelemetry's conventions for processes are.

use std::collections::BTreeMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1 as common;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1 as otlp;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::resource::v1 as resource;
use prost::Message as _;

use super::second::{ProcessSecond, Second};
use crate::model::id::RunId;
use crate::model::semconv;

/// What every process's resource says of the run.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) run: RunId,
    /// Further attributes, such as the commit.
    pub(crate) more: BTreeMap<String, String>,
    pub(crate) started_unix_ns: u64,
}

/// An export request with the second's gauges.
pub(super) fn request(second: &Second, of: &Resource) -> Bytes {
    let now_ns = second.unix_ms * 1_000_000;
    let scope = common::InstrumentationScope {
        name: "cargo-loadtest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let resource_metrics = second.processes.iter().map(|process| otlp::ResourceMetrics {
        resource: Some(attributes(process, of)),
        scope_metrics: vec![otlp::ScopeMetrics {
            scope: Some(scope.clone()),
            metrics: Points { start_ns: of.started_unix_ns, now_ns }.metrics(process),
            ..Default::default()
        }],
        ..Default::default()
    });
    let request = ExportMetricsServiceRequest { resource_metrics: resource_metrics.collect() };
    request.encode_to_vec().into()
}

fn attributes(process: &ProcessSecond, of: &Resource) -> resource::Resource {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let own = [
        ("service.name", text(&process.name)),
        ("service.instance.id", text(&format!("{}-{}", of.run, process.pid))),
        ("process.pid", Value::IntValue(process.pid.into())),
        (semconv::RUN_ID, text(of.run.as_str())),
    ];
    let more = of.more.iter().map(|(key, value)| (key.as_str(), text(value)));
    let attribute = |(key, value): (&str, Value)| common::KeyValue {
        key: key.to_owned(),
        value: Some(common::AnyValue { value: Some(value) }),
        ..Default::default()
    };
    resource::Resource {
        attributes: own.into_iter().chain(more).map(attribute).collect(),
        ..Default::default()
    }
}

struct Points {
    start_ns: u64,
    now_ns: u64,
}

impl Points {
    fn metrics(&self, process: &ProcessSecond) -> Vec<otlp::Metric> {
        let share = |value| Some(Number::AsDouble(value));
        let count = |value: u64| Some(Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX)));
        let all = [
            self.gauge(
                "process.cpu.utilization",
                "CPU time in the last second, of what the host has on all its cores.",
                share(process.cpu_share),
            ),
            self.gauge(
                "loadtest.process.runqueue_wait",
                "Time in the last second that threads waited for a CPU, over the time that they had one.",
                process.runqueue_wait_ratio.and_then(share),
            ),
            self.level("process.memory.usage", "By", "Resident memory.", count(process.rss_bytes)),
            self.level(
                "process.open_file_descriptor.count",
                "{file_descriptor}",
                "Open file descriptors.",
                process.open_files.and_then(count),
            ),
        ];
        all.into_iter().flatten().collect()
    }

    fn point(&self, value: Number) -> otlp::NumberDataPoint {
        otlp::NumberDataPoint {
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.now_ns,
            value: Some(value),
            ..Default::default()
        }
    }

    /// A ratio.
    fn gauge(&self, name: &str, description: &str, value: Option<Number>) -> Option<otlp::Metric> {
        let data_points = vec![self.point(value?)];
        Some(metric(name, "1", description, otlp::metric::Data::Gauge(otlp::Gauge { data_points })))
    }

    /// What can be added up over processes: an up-down counter, as the conventions want it.
    fn level(
        &self,
        name: &str,
        unit: &str,
        description: &str,
        value: Option<Number>,
    ) -> Option<otlp::Metric> {
        let sum = otlp::Sum {
            data_points: vec![self.point(value?)],
            aggregation_temporality: otlp::AggregationTemporality::Cumulative as i32,
            is_monotonic: false,
        };
        Some(metric(name, unit, description, otlp::metric::Data::Sum(sum)))
    }
}

fn metric(name: &str, unit: &str, description: &str, data: otlp::metric::Data) -> otlp::Metric {
    otlp::Metric {
        name: name.into(),
        unit: unit.into(),
        description: description.into(),
        data: Some(data),
        ..Default::default()
    }
}
