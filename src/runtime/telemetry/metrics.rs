//! Metrics of the load, cumulative, from the snapshots that the report is made of: built as OTLP by hand, since the SDK
//! cannot attach exemplars.

use std::collections::{BTreeMap, HashMap};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1 as common;
use opentelemetry_proto::tonic::metrics::v1 as otlp;

use super::buffer::{Sample, Samples};
use super::custom;
use super::resource::{proto, text};
use crate::model::latency::Latency;
use crate::model::phases::HttpPhase;
use crate::model::semconv;
use crate::model::stats::{Interval, ScenarioStats, StepKey, StepKind};

/// Buckets of an exponential histogram, at most: OpenTelemetry's default.
const MOST_BUCKETS: f64 = 160.0;
/// No finer than the histograms that it is made of: 2^(2^-9) is 0.14% wide.
const FINEST_SCALE: i32 = 9;

/// The methods that the semantic conventions know.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// The cumulative state.
#[derive(Debug)]
pub(crate) struct Metrics {
    resource: opentelemetry_proto::tonic::resource::v1::Resource,
    start_ns: u64,
    scenarios: BTreeMap<String, ScenarioStats>,
    /// Since the last request: the latest sample of each power of two, by scenario and step.
    samples: HashMap<(String, String), BTreeMap<i32, Sample>>,
}

impl Metrics {
    pub(crate) fn new(resource: &[(String, String)], start_ns: u64) -> Self {
        Self { resource: proto(resource), start_ns, scenarios: BTreeMap::new(), samples: HashMap::new() }
    }

    /// Takes figures of the load in.
    pub(crate) fn add(&mut self, interval: &Interval) {
        for (name, stats) in &interval.scenarios {
            self.scenarios.entry(name.clone()).or_default().merge(stats);
        }
    }

    /// Takes samples of a scenario's requests; later ones stand for those before.
    pub(super) fn note(&mut self, scenario: &str, samples: Samples) {
        for (step, samples) in samples {
            self.samples.entry((scenario.to_owned(), step.to_string())).or_default().extend(samples);
        }
    }

    /// Everything so far, as of `now_ns`.
    pub(crate) fn request(&mut self, now_ns: u64) -> ExportMetricsServiceRequest {
        let mut metrics = Points { start_ns: self.start_ns, now_ns, ..Points::default() };
        for (scenario, stats) in &self.scenarios {
            let here = [text(semconv::SCENARIO, scenario)];
            metrics.scenario(&here, stats);
            for (key, step) in &stats.steps {
                let samples = self.samples.remove(&(scenario.clone(), key.name.clone())).unwrap_or_default();
                metrics.step(&here, key, step, samples.into_values());
            }
        }
        let mut all = metrics.into_metrics();
        all.extend(custom::metrics(&self.scenarios, self.start_ns, now_ns));
        let scope = common::InstrumentationScope {
            name: "cargo-loadtest".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        ExportMetricsServiceRequest {
            resource_metrics: vec![otlp::ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![otlp::ScopeMetrics {
                    scope: Some(scope),
                    metrics: all,
                    ..Default::default()
                }],
                ..Default::default()
            }],
        }
    }
}

#[derive(Default)]
struct Points {
    start_ns: u64,
    now_ns: u64,
    request_duration: Vec<otlp::ExponentialHistogramDataPoint>,
    sent_duration: Vec<otlp::ExponentialHistogramDataPoint>,
    phases: Vec<otlp::ExponentialHistogramDataPoint>,
    retries: Vec<otlp::NumberDataPoint>,
    step_duration: Vec<otlp::ExponentialHistogramDataPoint>,
    iteration_duration: Vec<otlp::ExponentialHistogramDataPoint>,
    iteration_response: Vec<otlp::ExponentialHistogramDataPoint>,
    iteration_lag: Vec<otlp::ExponentialHistogramDataPoint>,
    requests: Vec<otlp::NumberDataPoint>,
    iterations: Vec<otlp::NumberDataPoint>,
    checks: Vec<otlp::NumberDataPoint>,
    users: Vec<otlp::NumberDataPoint>,
}

impl Points {
    fn scenario(&mut self, here: &[common::KeyValue], stats: &ScenarioStats) {
        let outcomes = [
            ("ok", stats.iterations - stats.failed_iterations),
            ("failed", stats.failed_iterations),
            ("interrupted", stats.interrupted_iterations),
            ("dropped", stats.dropped_iterations),
        ];
        for (outcome, count) in outcomes {
            let point = self.number(here, &[text("loadtest.outcome", outcome)], count);
            self.iterations.push(point);
        }
        for (name, check) in &stats.checks {
            for (outcome, count) in [("passed", check.passes), ("failed", check.fails)] {
                let more = [text("loadtest.check", name), text("loadtest.outcome", outcome)];
                let point = self.number(here, &more, count);
                self.checks.push(point);
            }
        }
        let users = self.number(here, &[], u64::from(stats.vus));
        self.users.push(users);
        let iteration = self.histogram(here.to_vec(), &stats.iteration, std::iter::empty());
        self.iteration_duration.push(iteration);
        // Of open models alone.
        if !stats.response.is_empty() {
            let response = self.histogram(here.to_vec(), &stats.response, std::iter::empty());
            self.iteration_response.push(response);
            let lag = self.histogram(here.to_vec(), &stats.lag, std::iter::empty());
            self.iteration_lag.push(lag);
        }
    }

    fn step(
        &mut self,
        here: &[common::KeyValue],
        key: &StepKey,
        stats: &crate::model::stats::StepStats,
        samples: impl Iterator<Item = Sample>,
    ) {
        let mut attributes = here.to_vec();
        attributes.push(text(semconv::STEP, &key.name));
        if key.kind == StepKind::Step {
            let point = self.histogram(attributes, &stats.latency, std::iter::empty());
            self.step_duration.push(point);
            return;
        }
        for (status, count) in &stats.status {
            let point =
                self.number(&attributes, &[text("http.response.status_code", &status.to_string())], *count);
            self.requests.push(point);
        }
        for (class, count) in &stats.error_types {
            let point = self.number(&attributes, &[text("error.type", class)], *count);
            self.requests.push(point);
        }
        if stats.retries > 0 {
            let point = self.number(&attributes, &[], stats.retries);
            self.retries.push(point);
        }
        let sent = self.histogram(attributes.clone(), &stats.duration, std::iter::empty());
        self.sent_duration.push(sent);
        for phase in HttpPhase::ALL.into_iter().filter(|phase| stats.phases.has(*phase)) {
            let of_phase = [&attributes[..], &[text(semconv::HTTP_PHASE, phase.name())]].concat();
            let point = self.histogram(of_phase, &stats.phase(phase), std::iter::empty());
            self.phases.push(point);
        }
        if let Some((method, template)) = method_and_template(&key.name) {
            attributes.extend([text("http.request.method", method), text("url.template", template)]);
        }
        let point = self.histogram(attributes, &stats.latency, samples);
        self.request_duration.push(point);
    }

    fn number(
        &self,
        here: &[common::KeyValue],
        more: &[common::KeyValue],
        value: u64,
    ) -> otlp::NumberDataPoint {
        otlp::NumberDataPoint {
            attributes: [here, more].concat(),
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.now_ns,
            value: Some(otlp::number_data_point::Value::AsInt(value as i64)),
            ..Default::default()
        }
    }

    fn histogram(
        &self,
        attributes: Vec<common::KeyValue>,
        latency: &Latency,
        samples: impl Iterator<Item = Sample>,
    ) -> otlp::ExponentialHistogramDataPoint {
        let (scale, zero_count, positive) = exponential(latency);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        otlp::ExponentialHistogramDataPoint {
            attributes,
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.now_ns,
            count: latency.complete_count(),
            sum: Some(latency.sum_nanos() as f64 / 1e9),
            scale,
            zero_count,
            positive: Some(positive),
            min: latency.min_nanos().map(seconds),
            max: latency.buckets().last().map(|_| seconds(latency.complete_max_nanos())),
            exemplars: samples
                .map(|sample| otlp::Exemplar {
                    time_unix_nano: sample.at_ns,
                    span_id: sample.span.to_vec(),
                    trace_id: sample.trace.to_vec(),
                    value: Some(otlp::exemplar::Value::AsDouble(sample.seconds)),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    fn into_metrics(self) -> Vec<otlp::Metric> {
        use otlp::metric::Data;
        let cumulative = otlp::AggregationTemporality::Cumulative as i32;
        let metric = |name: &str, unit: &str, description: &str, data| otlp::Metric {
            name: name.into(),
            unit: unit.into(),
            description: description.into(),
            data: Some(data),
            ..Default::default()
        };
        let histogram = |data_points| {
            Data::ExponentialHistogram(otlp::ExponentialHistogram {
                data_points,
                aggregation_temporality: cumulative,
            })
        };
        let sum = |data_points| {
            Data::Sum(otlp::Sum { data_points, aggregation_temporality: cumulative, is_monotonic: true })
        };
        vec![
            metric(
                "http.client.request.duration",
                "s",
                "Expected responses: from send to the last byte of the body.",
                histogram(self.request_duration),
            ),
            metric(
                "loadtest.http.duration",
                "s",
                "Expected responses: from the first byte sent to the last received, without connecting.",
                histogram(self.sent_duration),
            ),
            metric(
                "loadtest.http.phase.duration",
                "s",
                "Expected responses, and requests that were cut off: each phase that ended, 0 where there was none.",
                histogram(self.phases),
            ),
            metric(
                "loadtest.http.retries",
                "{request}",
                "Requests that were sent again because the connection was closed before an answer came.",
                sum(self.retries),
            ),
            metric(
                "loadtest.step.duration",
                "s",
                "Timed steps that ended well.",
                histogram(self.step_duration),
            ),
            metric(
                "loadtest.iteration.duration",
                "s",
                "Iterations that ended.",
                histogram(self.iteration_duration),
            ),
            metric(
                "loadtest.iteration.response.duration",
                "s",
                "Iterations of open models that ended: from when they were due.",
                histogram(self.iteration_response),
            ),
            metric(
                "loadtest.iteration.lag",
                "s",
                "Iterations of open models: from when they were due to their start.",
                histogram(self.iteration_lag),
            ),
            metric(
                "loadtest.requests",
                "{request}",
                "Responses by status, and transport errors by class.",
                sum(self.requests),
            ),
            metric("loadtest.iterations", "{iteration}", "Iterations by outcome.", sum(self.iterations)),
            metric("loadtest.checks", "{check}", "Checks by outcome.", sum(self.checks)),
            metric(
                "loadtest.vus",
                "{user}",
                "Users running.",
                Data::Gauge(otlp::Gauge { data_points: self.users }),
            ),
        ]
    }
}

/// The two of which a row's name is made, unless its author gave it another.
fn method_and_template(name: &str) -> Option<(&str, &str)> {
    let (method, template) = name.split_once(' ')?;
    let is_template = ["/", "http://", "https://"].iter().any(|start| template.starts_with(start));
    (METHODS.contains(&method) && is_template).then_some((method, template))
}

/// Scale, zero count and positive buckets: bucket i of scale s holds (b^i, b^(i+1)] with b = 2^(2^-s), as the data model
/// of OpenTelemetry defines it.
fn exponential(latency: &Latency) -> (i32, u64, otlp::exponential_histogram_data_point::Buckets) {
    let seconds = |micros: u64| micros as f64 / 1e6;
    let mut buckets = latency.buckets().filter(|(micros, _)| *micros > 0);
    let zero = latency.buckets().find(|(micros, _)| *micros == 0).map_or(0, |(_, count)| count);
    let Some((lowest, _)) = buckets.next() else {
        return (FINEST_SCALE, zero, otlp::exponential_histogram_data_point::Buckets::default());
    };
    let highest = latency.buckets().last().map_or(lowest, |(micros, _)| micros);
    let doublings = (seconds(highest) / seconds(lowest)).log2().max(1e-9);
    let scale = ((MOST_BUCKETS - 1.0) / doublings).log2().floor().min(f64::from(FINEST_SCALE)) as i32;
    let index = |micros: u64| (seconds(micros).log2() * f64::from(scale).exp2()).ceil() as i32 - 1;
    let offset = index(lowest);
    let mut counts = vec![0; (index(highest) - offset + 1) as usize];
    for (micros, count) in latency.buckets().filter(|(micros, _)| *micros > 0) {
        counts[(index(micros) - offset) as usize] += count;
    }
    (scale, zero, otlp::exponential_histogram_data_point::Buckets { offset, bucket_counts: counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::phases::PhaseTimes;
    use crate::model::stats::StepStats;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn each_duration_lies_in_the_bucket_that_the_data_model_gives_it(
            micros in proptest::collection::vec(0_u64..120_000_000, 1..100)
        ) {
            let mut latency = Latency::default();
            micros.iter().for_each(|us| latency.record(Duration::from_micros(*us)));
            let (scale, zero, positive) = exponential(&latency);
            prop_assert_eq!(zero + positive.bucket_counts.iter().sum::<u64>(), micros.len() as u64);
            prop_assert!(positive.bucket_counts.len() <= MOST_BUCKETS as usize + 1);
            // The median by buckets is the median within the buckets' width.
            let base = 2_f64.powf(2_f64.powi(-scale));
            let mut seen = zero;
            let half = micros.len().div_ceil(2) as u64;
            if seen < half {
                let at = positive.bucket_counts.iter().position(|count| { seen += count; seen >= half }).unwrap();
                let upper = base.powi(positive.offset + at as i32 + 1);
                let exact = latency.percentile(50.0).unwrap().nanos as f64 / 1e9;
                prop_assert!(exact <= upper * 1.002 && exact >= upper / base / 1.002, "{} {}", exact, upper);
            }
        }
    }

    #[test]
    fn only_names_made_of_method_and_template_are_taken_apart() {
        for (name, parts) in [
            ("GET /users/{id}", Some(("GET", "/users/{id}"))),
            ("POST https://127.0.0.1/a b", Some(("POST", "https://127.0.0.1/a b"))),
            ("log in", None),
            ("Get /users", None),
            ("GET users", None),
            ("GET httpd", None),
            ("FETCH /users", None),
            ("GET", None),
        ] {
            let key = StepKey { kind: StepKind::Request, name: name.to_owned() };
            let mut points = Points::default();
            points.step(&[], &key, &crate::model::stats::StepStats::default(), std::iter::empty());
            let attributes = &points.request_duration[0].attributes;
            let expected = match parts {
                Some((method, template)) => vec![
                    text(semconv::STEP, name),
                    text("http.request.method", method),
                    text("url.template", template),
                ],
                None => vec![text(semconv::STEP, name)],
            };
            assert_eq!(*attributes, expected, "{name}");
        }
    }

    #[test]
    fn phases_are_told_with_the_zeros_of_requests_that_had_none() {
        let mut stats = StepStats { retries: 3, ..StepStats::default() };
        let mut phases = PhaseTimes::default();
        phases.set(HttpPhase::Waiting, Duration::from_millis(5));
        stats.respond(Duration::from_millis(5), &phases);
        phases.set(HttpPhase::Tls, Duration::from_millis(20));
        stats.respond(Duration::from_millis(25), &phases);
        let mut points = Points::default();
        let key = StepKey { kind: StepKind::Request, name: "GET /".into() };
        points.step(&[], &key, &stats, std::iter::empty());
        let told: Vec<_> = points
            .phases
            .iter()
            .map(|point| (point.attributes[1].clone(), point.count, point.zero_count, point.sum.unwrap()))
            .collect();
        let phase = |name| text(semconv::HTTP_PHASE, name);
        assert_eq!(told, [(phase("tls"), 2, 1, 0.02), (phase("waiting"), 2, 0, 0.01)]);
        assert_eq!((points.sent_duration[0].count, points.sent_duration[0].sum), (2, Some(0.01)));
        let otlp::number_data_point::Value::AsInt(retries) = points.retries[0].value.unwrap() else {
            panic!()
        };
        assert_eq!(retries, 3);
    }

    #[test]
    fn nothing_recorded_is_a_histogram_of_nothing() {
        let (_, zero, positive) = exponential(&Latency::default());
        assert_eq!((zero, positive.bucket_counts.len()), (0, 0));
    }
}
