//! Spans of the load as OTLP, written field by field into the bytes of the request that they leave in: nothing is built
//! in between, and nothing allocated.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::SpanFlags;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use prost::bytes::BufMut as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::resource;
use super::span::{IterationFacts, SpanRecord, What};
use crate::model::id::{SpanId, TraceId};
use crate::model::phases::{HttpPhase, PhaseTimes};
use crate::model::secret::Secrets;
use crate::model::semconv;
use crate::model::tags::Tags;

/// Sampled, and known not to be of another process.
const FLAGS: u32 = 1 | SpanFlags::ContextHasIsRemoteMask as u32;

/// A field's key and the length of what it holds, at most.
const KEY_AND_LENGTH: usize = 11;

/// What stands around the spans of a request: the resource and the scope, encoded once.
#[derive(Debug)]
pub(super) struct Envelope {
    /// Field 1 of a `ResourceSpans`.
    resource: Vec<u8>,
    /// Field 1 of a `ScopeSpans`.
    scope: Vec<u8>,
}

impl Envelope {
    pub(super) fn new(attributes: &[(String, String)]) -> Self {
        let scope = InstrumentationScope {
            name: "cargo-loadtest".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let (mut resource, mut of_scope) = (Vec::new(), Vec::new());
        bytes(&mut resource, 1, &resource::proto(attributes).encode_to_vec());
        bytes(&mut of_scope, 1, &scope.encode_to_vec());
        Self { resource, scope: of_scope }
    }

    /// How much room to leave before the first span for what [`Self::close`] puts there.
    pub(super) fn room(&self) -> usize {
        self.resource.len() + self.scope.len() + 2 * KEY_AND_LENGTH
    }

    /// Makes spans, each written by [`span`] after [`Self::room`] bytes, a whole request; where in `spans` it begins.
    pub(super) fn close(&self, spans: &mut [u8]) -> usize {
        let room = self.room();
        let in_scope = self.scope.len() + spans.len() - room;
        let in_resource = self.resource.len() + 1 + encoded_len_varint(in_scope as u64) + in_scope;
        let mut head = Vec::with_capacity(room);
        key_and_length(&mut head, 1, in_resource);
        head.extend_from_slice(&self.resource);
        key_and_length(&mut head, 2, in_scope);
        head.extend_from_slice(&self.scope);
        let start = room - head.len();
        spans[start..room].copy_from_slice(&head);
        start
    }
}

/// Writes a span as one more of those in a `ScopeSpans`; `scratch` is room to build it in.
///
/// Client spans follow OpenTelemetry's HTTP semantic conventions.
pub(super) fn span(into: &mut Vec<u8>, scratch: &mut Vec<u8>, span: &SpanRecord, secrets: &Secrets) {
    scratch.clear();
    let mut writer = Writer { bytes: scratch, secrets };
    writer.ids(span);
    let error = match &span.what {
        What::Iteration { error, .. } => {
            writer.name(&["iteration ", &span.iteration.scenario]);
            error.as_deref()
        }
        What::Step { name, error, .. } => {
            writer.name(&[name]);
            error.as_deref()
        }
        What::Request(request) => {
            match &request.template {
                Some(template) => writer.name(&[request.method.as_str(), " ", template]),
                None => writer.name(&[request.method.as_str()]),
            }
            request.error_type.as_deref()
        }
    };
    let kind = if matches!(span.what, What::Request(_)) { SpanKind::Client } else { SpanKind::Internal };
    number(writer.bytes, 6, kind as u64);
    fixed64(writer.bytes, 7, span.start_ns);
    fixed64(writer.bytes, 8, span.end_ns);
    writer.attributes(&span.iteration, &span.what);
    writer.tags(&span.tags);
    if let What::Iteration { run_span, .. } = span.what {
        writer.link(run_span);
    }
    writer.status(error);
    fixed32(writer.bytes, 16, FLAGS);
    bytes(into, 2, scratch);
}

/// The fields of one span.
struct Writer<'w> {
    bytes: &'w mut Vec<u8>,
    secrets: &'w Secrets,
}

impl Writer<'_> {
    fn ids(&mut self, span: &SpanRecord) {
        bytes(self.bytes, 1, &span.iteration.trace.0.to_be_bytes());
        bytes(self.bytes, 2, &span.id.0.to_be_bytes());
        if let Some(parent) = span.parent {
            bytes(self.bytes, 4, &parent.0.to_be_bytes());
        }
    }

    fn name(&mut self, parts: &[&str]) {
        if self.secrets.is_empty() {
            key_and_length(self.bytes, 5, parts.iter().map(|part| part.len()).sum());
            parts.iter().for_each(|part| self.bytes.put_slice(part.as_bytes()));
        } else {
            bytes(self.bytes, 5, self.secrets.mask(parts.concat()).as_bytes());
        }
    }

    fn attributes(&mut self, facts: &IterationFacts, what: &What) {
        self.text(semconv::SCENARIO, &facts.scenario);
        self.text(semconv::PHASE, facts.phase.as_str());
        self.double(semconv::WEIGHT, facts.weight);
        self.int(semconv::VU, facts.vu as i64);
        self.int(semconv::ITERATION, facts.iteration as i64);
        match what {
            What::Iteration { .. } => self.text(semconv::ROLE, "iteration"),
            What::Step { name, group, error } => {
                self.step(name, "step", error.is_none(), group.as_deref());
            }
            What::Request(request) => {
                self.step(&request.name, "request", request.expected, request.group.as_deref());
                self.text("http.request.method", request.method.as_str());
                self.text("url.full", &request.url);
                self.text("user_agent.synthetic.type", "test");
                if let Some(template) = &request.template {
                    self.text("url.template", template);
                }
                // For whatever reason: that a redirect asked for it, or that a connection was closed.
                let resent = request.hop as i64 + i64::from(request.retries);
                if resent > 0 {
                    self.int("http.request.resend_count", resent);
                }
                if let Some(host) = &request.host {
                    self.text("server.address", host);
                }
                if let Some(port) = request.port {
                    self.int("server.port", port.into());
                }
                if let Some(status) = request.status {
                    self.int("http.response.status_code", status.into());
                }
                if let Some(version) = request.version {
                    self.text("network.protocol.version", version);
                }
                if let Some(class) = &request.error_type {
                    self.text("error.type", class);
                }
                self.phases(&request.phases);
            }
        }
    }

    fn phases(&mut self, times: &PhaseTimes) {
        for (phase, name) in HttpPhase::ALL.into_iter().zip(semconv::PHASES_MS) {
            let time = times.get(phase);
            if !time.is_zero() {
                self.double(name, time.as_secs_f64() * 1e3);
            }
        }
    }

    fn tags(&mut self, tags: &Tags) {
        for (name, value) in tags.iter() {
            self.text(&format!("{}{name}", semconv::TAG), value);
        }
    }

    fn step(&mut self, name: &str, kind: &str, expected: bool, group: Option<&str>) {
        self.text(semconv::ROLE, "step");
        self.text(semconv::STEP, name);
        self.text(semconv::STEP_KIND, kind);
        self.bool(semconv::EXPECTED, expected);
        if let Some(group) = group {
            self.text(semconv::GROUP, group);
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        let value = self.secrets.mask(value);
        self.attribute(name, 1 + encoded_len_varint(value.len() as u64) + value.len());
        bytes(self.bytes, 1, value.as_bytes());
    }

    fn bool(&mut self, name: &str, value: bool) {
        self.attribute(name, 2);
        number(self.bytes, 2, value.into());
    }

    fn int(&mut self, name: &str, value: i64) {
        self.attribute(name, 1 + encoded_len_varint(value as u64));
        number(self.bytes, 3, value as u64);
    }

    fn double(&mut self, name: &str, value: f64) {
        self.attribute(name, 9);
        fixed64(self.bytes, 4, value.to_bits());
    }

    /// All of an attribute but its value, an `AnyValue` of `length` bytes that comes next.
    fn attribute(&mut self, name: &str, length: usize) {
        let field = |length: usize| 1 + encoded_len_varint(length as u64) + length;
        key_and_length(self.bytes, 9, field(name.len()) + field(length));
        bytes(self.bytes, 1, name.as_bytes());
        key_and_length(self.bytes, 2, length);
    }

    fn link(&mut self, (trace, span): (TraceId, SpanId)) {
        key_and_length(self.bytes, 13, 18 + 10 + 5);
        bytes(self.bytes, 1, &trace.0.to_be_bytes());
        bytes(self.bytes, 2, &span.0.to_be_bytes());
        fixed32(self.bytes, 6, FLAGS);
    }

    fn status(&mut self, error: Option<&str>) {
        let Some(error) = error else { return key_and_length(self.bytes, 15, 0) };
        let message = self.secrets.mask(error);
        key_and_length(self.bytes, 15, 1 + encoded_len_varint(message.len() as u64) + message.len() + 2);
        bytes(self.bytes, 2, message.as_bytes());
        number(self.bytes, 3, StatusCode::Error as u64);
    }
}

fn key_and_length(into: &mut Vec<u8>, field: u32, length: usize) {
    encode_key(field, WireType::LengthDelimited, into);
    encode_varint(length as u64, into);
}

fn bytes(into: &mut Vec<u8>, field: u32, value: &[u8]) {
    key_and_length(into, field, value.len());
    into.extend_from_slice(value);
}

fn number(into: &mut Vec<u8>, field: u32, value: u64) {
    encode_key(field, WireType::Varint, into);
    encode_varint(value, into);
}

fn fixed32(into: &mut Vec<u8>, field: u32, value: u32) {
    // The length of a key in the link of an iteration relies on fields below 16 taking one byte.
    encode_key(field, WireType::ThirtyTwoBit, into);
    into.put_u32_le(value);
}

fn fixed64(into: &mut Vec<u8>, field: u32, value: u64) {
    encode_key(field, WireType::SixtyFourBit, into);
    into.put_u64_le(value);
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::Link};

    use super::super::span::RequestFacts;
    use super::*;
    use crate::model::stats::Phase;

    const TRACE: TraceId = TraceId(0x10ad_7e57_0000_0001_0000_0000_0000_0007);

    fn facts() -> IterationFacts {
        IterationFacts {
            trace: TRACE,
            scenario: "auth".into(),
            phase: Phase::Load,
            weight: 2.5,
            vu: 3,
            iteration: 300,
        }
    }

    fn record(what: What) -> SpanRecord {
        SpanRecord {
            iteration: facts(),
            id: SpanId(9),
            parent: Some(SpanId(8)),
            start_ns: 1 << 60,
            end_ns: 77,
            what,
            tags: Tags::default(),
        }
    }

    pub(in super::super) fn iteration() -> SpanRecord {
        let what = What::Iteration { error: None, run_span: (TraceId(5), SpanId(6)) };
        SpanRecord { parent: None, ..record(what) }
    }

    pub(in super::super) fn request(change: impl FnOnce(&mut SpanRecord, &mut RequestFacts)) -> SpanRecord {
        let mut facts = RequestFacts {
            name: "GET /users/{id}".into(),
            group: Some("log in".into()),
            method: http::Method::GET,
            template: Some("/users/{id}".into()),
            hop: 0,
            url: "http://127.0.0.1:81/users/7".into(),
            host: Some("127.0.0.1".into()),
            port: Some(81),
            status: Some(200),
            version: Some("1.1"),
            error_type: None,
            expected: true,
            phases: PhaseTimes::default(),
            retries: 0,
        };
        let mut span = iteration();
        span.parent = Some(SpanId(8));
        change(&mut span, &mut facts);
        span.what = What::Request(Box::new(facts));
        span
    }

    fn text(key: &str, value: &str) -> KeyValue {
        super::resource::text(key, value)
    }

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    /// What every span of the iteration says, and then `more`.
    fn attributes(more: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
        let mut all = vec![
            text("loadtest.scenario", "auth"),
            text("loadtest.phase", "load"),
            attribute("loadtest.sampling.weight", Value::DoubleValue(2.5)),
            attribute("loadtest.vu", Value::IntValue(3)),
            attribute("loadtest.iteration", Value::IntValue(300)),
        ];
        all.extend(more);
        all
    }

    fn of_step(name: &str, kind: &str, expected: bool) -> Vec<KeyValue> {
        vec![
            text("loadtest.role", "step"),
            text("loadtest.step", name),
            text("loadtest.step.kind", kind),
            attribute("loadtest.expected", Value::BoolValue(expected)),
        ]
    }

    fn expected(name: &str, kind: SpanKind, attributes: Vec<KeyValue>) -> Span {
        Span {
            trace_id: TRACE.0.to_be_bytes().into(),
            span_id: 9_u64.to_be_bytes().into(),
            parent_span_id: 8_u64.to_be_bytes().into(),
            name: name.into(),
            kind: kind as i32,
            start_time_unix_nano: 1 << 60,
            end_time_unix_nano: 77,
            attributes,
            status: Some(Status::default()),
            flags: 0x101,
            ..Span::default()
        }
    }

    fn failed(message: &str) -> Status {
        Status { message: message.into(), code: StatusCode::Error as i32 }
    }

    #[track_caller]
    fn check(record: &SpanRecord, secrets: &[&str], wanted: Span) {
        let attributes = [("service.name".to_owned(), "loadtest".to_owned())];
        let envelope = Envelope::new(&attributes);
        let mut bytes = vec![0; envelope.room()];
        let secrets = secrets.iter().copied().collect();
        span(&mut bytes, &mut vec![1, 2, 3], record, &secrets);
        let start = envelope.close(&mut bytes);
        let scope = InstrumentationScope {
            name: "cargo-loadtest".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource::proto(&attributes)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope),
                    spans: vec![wanted],
                    ..Default::default()
                }],
                ..Default::default()
            }],
        };
        assert_eq!(ExportTraceServiceRequest::decode(&bytes[start..]).unwrap(), request);
        assert_eq!(bytes[start..], request.encode_to_vec(), "in the same order, and as short");
    }

    #[test]
    fn an_iteration_is_a_root_linked_to_its_run() {
        let wanted = Span {
            parent_span_id: Vec::new(),
            links: vec![Link {
                trace_id: 5_u128.to_be_bytes().into(),
                span_id: 6_u64.to_be_bytes().into(),
                flags: 0x101,
                ..Link::default()
            }],
            ..expected("iteration auth", SpanKind::Internal, attributes([text("loadtest.role", "iteration")]))
        };
        check(&iteration(), &[], wanted);
    }

    #[test]
    fn a_failed_step_says_why() {
        let what = What::Step { name: "query".into(), group: None, error: Some("no rows".into()) };
        let attributes = attributes(of_step("query", "step", false));
        let wanted =
            Span { status: Some(failed("no rows")), ..expected("query", SpanKind::Internal, attributes) };
        check(&record(what), &[], wanted);
    }

    #[test]
    fn a_request_has_what_the_conventions_name_and_leaves_out_what_is_not_known() {
        let http = [
            text("loadtest.group", "log in"),
            text("http.request.method", "GET"),
            text("url.full", "http://127.0.0.1:81/users/7"),
            text("user_agent.synthetic.type", "test"),
        ];
        let more = [
            text("url.template", "/users/{id}"),
            text("server.address", "127.0.0.1"),
            attribute("server.port", Value::IntValue(81)),
            attribute("http.response.status_code", Value::IntValue(200)),
            text("network.protocol.version", "1.1"),
        ];
        let step = of_step("GET /users/{id}", "request", true);
        let all = attributes([step, http.to_vec(), more.to_vec()].concat());
        let record = request(|span, _| (span.id, span.start_ns, span.end_ns) = (SpanId(9), 1 << 60, 77));
        check(&record, &[], expected("GET /users/{id}", SpanKind::Client, all));

        let second = request(|_, facts| {
            (facts.template, facts.hop, facts.host, facts.port) = (None, 2, None, None);
            facts.phases.set(HttpPhase::Tls, Duration::from_micros(1250));
            facts.phases.set(HttpPhase::Waiting, Duration::from_millis(30));
            facts.retries = 1;
            (facts.status, facts.version, facts.expected) = (None, None, false);
            facts.error_type = Some("reset".into());
        });
        let more = [
            attribute("http.request.resend_count", Value::IntValue(3)),
            text("error.type", "reset"),
            attribute("loadtest.http.tls_ms", Value::DoubleValue(1.25)),
            attribute("loadtest.http.waiting_ms", Value::DoubleValue(30.0)),
        ];
        let step = of_step("GET /users/{id}", "request", false);
        let all = attributes([step, http.to_vec(), more.to_vec()].concat());
        check(&second, &[], Span { status: Some(failed("reset")), ..expected("GET", SpanKind::Client, all) });
    }

    #[test]
    fn a_secret_is_in_no_text_of_a_span() {
        let what = What::Step {
            name: "find canary".into(),
            group: Some("canary".into()),
            error: Some("a canary".into()),
        };
        let mut step = of_step("find ***", "step", false);
        step.push(text("loadtest.group", "***"));
        let wanted = Span {
            status: Some(failed("a ***")),
            ..expected("find ***", SpanKind::Internal, attributes(step))
        };
        check(&record(what), &["canary"], wanted);

        let mut bytes = Vec::new();
        let record = request(|_, facts| {
            facts.url = "http://127.0.0.1/canary".into();
            facts.template = Some("/canary".into());
            facts.name = "GET /canary".into();
            facts.error_type = Some("canary".into());
        });
        span(&mut bytes, &mut Vec::new(), &record, &["canary"].into_iter().collect());
        assert!(bytes.windows(3).any(|some| some == b"***"));
        assert!(!bytes.windows(6).any(|some| some == b"canary"));
    }
}
