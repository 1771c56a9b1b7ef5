//! From an encoded trace request to the spans of this run, with everything of other traces passed over undecoded.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as ProtoKind;
use prost::Message;

use crate::model::id::{RunId, SpanId, TraceId, TracePrefix};
use crate::model::semconv;
use crate::model::span::{Span, SpanKind};

use super::redact;
use super::said::{Said, Sayings};
use super::store::{Arrival, SpanStore};
use super::view::SpanView;
use super::wire::{self, Malformed, Origin};

/// A span larger than this (or one whose resource and scope are) is not kept.
const SPAN_LIMIT: usize = 1 << 20;

/// Names are cut to this length: they become rows of reports.
const NAME_LIMIT: usize = 256;

/// How many distinct names, and how many distinct sources, are remembered to be shared. Beyond it, sharing starts anew.
const INTERNED: usize = 1 << 14;
const SOURCES: usize = 1 << 10;

/// What `service.name` is for a resource that has none, as the specification has it.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The resource and the scope that spans came with, as encoded by their sender.
#[derive(Debug)]
pub(crate) struct Source {
    pub(super) resource: Box<[u8]>,
    pub(super) resource_schema: Box<[u8]>,
    pub(super) scope: Box<[u8]>,
    pub(super) scope_schema: Box<[u8]>,
    service: Arc<str>,
    /// It is the scenario process of this run.
    of_scenario: bool,
}

impl Source {
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin {
            resource: &self.resource,
            resource_schema: &self.resource_schema,
            scope: &self.scope,
            scope_schema: &self.scope_schema,
        }
    }

    pub(super) fn len(&self) -> usize {
        size_of::<Self>() + self.origin().len()
    }
}

/// What was seen in one request and not stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Spans of other traces than this run's.
    pub(super) foreign: u64,
    /// Spans that cannot be decoded or whose ids are not valid.
    pub(super) malformed: u64,
}

/// Reads the spans of one run.
#[derive(Debug)]
pub(super) struct Decoder {
    run: RunId,
    prefix: TracePrefix,
    names: Names,
    sources: HashMap<u64, Arc<Source>>,
    hasher: RandomState,
    /// The source of the last span, which mostly is that of the next one.
    last: Option<Arc<Source>>,
    said: Sayings,
}

/// What one request held.
#[derive(Debug, Default)]
struct Read<'a> {
    arrivals: Vec<Arrival<'a>>,
    /// Traces that cannot be kept whole.
    refused: Vec<TraceId>,
    passed: Passed,
}

impl Decoder {
    pub(super) fn new(run: RunId, prefix: TracePrefix) -> Self {
        Self {
            run,
            prefix,
            names: Names::default(),
            sources: HashMap::new(),
            hasher: RandomState::new(),
            last: None,
            said: Sayings::default(),
        }
    }

    /// Puts the spans of this run that are in `request` into `store`. On an error nothing was stored.
    pub(super) fn ingest(
        &mut self,
        request: &[u8],
        store: &mut SpanStore,
        now: Instant,
    ) -> Result<Passed, Malformed> {
        let Read { arrivals, refused, passed } = self.read(request)?;
        store.insert(arrivals, now);
        refused.into_iter().for_each(|trace| store.refuse(trace));
        Ok(passed)
    }

    fn read<'a>(&mut self, request: &'a [u8]) -> Result<Read<'a>, Malformed> {
        let mut read = Read::default();
        let mut last: Option<(Origin<'a>, Option<Arc<Source>>)> = None;
        wire::each_item(request, |origin, item| {
            let trace = id_of(wire::trace_id(item)?).map_or(0, u128::from_be_bytes);
            if trace != 0 && self.prefix.owns(TraceId(trace)) {
                if item.len() > SPAN_LIMIT || origin.len() > SPAN_LIMIT {
                    read.refused.push(TraceId(trace));
                    return wire::check_fields(item);
                }
                let source = match &last {
                    Some((of, source)) if of.is(origin) => source.clone(),
                    _ => last.insert((*origin, self.source(origin))).1.clone(),
                };
                match self.take(TraceId(trace), source, item)? {
                    Some(arrival) => read.arrivals.push(arrival),
                    None => read.passed.malformed += 1,
                }
                return Ok(());
            }
            let passed = &mut read.passed;
            let count = if trace == 0 { &mut passed.malformed } else { &mut passed.foreign };
            *count += 1;
            wire::check_fields(item)
        })?;
        Ok(read)
    }

    /// One span of this run; `None` if it is none.
    fn take<'a>(
        &mut self,
        trace: TraceId,
        source: Option<Arc<Source>>,
        bytes: &'a [u8],
    ) -> Result<Option<Arrival<'a>>, Malformed> {
        let mut said = Said::default();
        let Some(view) = SpanView::read(bytes, |key, value| said.hear(key, value))? else { return Ok(None) };
        let Some((id, source)) = span_id(view.id).zip(source) else { return Ok(None) };
        let span = Span {
            trace,
            id,
            parent: span_id(view.parent),
            service: source.service.clone(),
            name: self.names.share_redacted(view.name),
            kind: kind(view.kind),
            start_ns: view.start_ns,
            end_ns: view.end_ns,
            error: view.error,
            load: source.of_scenario.then(|| self.said.share(&said, &mut self.names)),
        };
        Ok(Some(Arrival { span, source, bytes }))
    }

    fn source(&mut self, origin: &Origin<'_>) -> Option<Arc<Source>> {
        if let Some(last) = self.last.as_ref().filter(|last| last.origin() == *origin) {
            return Some(last.clone());
        }
        let hash = self.hasher.hash_one(origin);
        let known = self.sources.get(&hash).filter(|source| source.origin() == *origin).cloned();
        let source = match known {
            Some(source) => source,
            None => self.new_source(hash, origin)?,
        };
        self.last = Some(source.clone());
        Some(source)
    }

    fn new_source(&mut self, hash: u64, origin: &Origin<'_>) -> Option<Arc<Source>> {
        let attributes = Resource::decode(origin.resource).ok()?.attributes;
        let source = Arc::new(Source {
            resource: origin.resource.into(),
            resource_schema: origin.resource_schema.into(),
            scope: origin.scope.into(),
            scope_schema: origin.scope_schema.into(),
            service: self.names.share(text(&attributes, "service.name").unwrap_or(UNKNOWN_SERVICE)),
            of_scenario: text(&attributes, semconv::RUN_ID) == Some(self.run.as_str()),
        });
        if self.sources.len() >= SOURCES {
            self.sources.clear();
        }
        self.sources.insert(hash, source.clone());
        Some(source)
    }
}

/// Strings that occur again and again, each held once.
#[derive(Debug, Default)]
pub(super) struct Names {
    shared: HashSet<Arc<str>>,
    /// By names as they came, what they are without secrets.
    redacted: HashMap<Box<str>, Arc<str>>,
}

impl Names {
    pub(super) fn share(&mut self, name: &str) -> Arc<str> {
        let cut = (0..=NAME_LIMIT.min(name.len())).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
        let name = &name[..cut];
        if let Some(shared) = self.shared.get(name) {
            return shared.clone();
        }
        if self.shared.len() >= INTERNED {
            self.shared.clear();
        }
        let shared: Arc<str> = name.into();
        self.shared.insert(shared.clone());
        shared
    }

    fn share_redacted(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.redacted.get(name) {
            return known.clone();
        }
        let shared = self.share(&redact::text(name));
        // A longer one is not worth its room.
        if name.len() <= NAME_LIMIT {
            if self.redacted.len() >= INTERNED {
                self.redacted.clear();
            }
            self.redacted.insert(name.into(), shared.clone());
        }
        shared
    }
}

fn id_of<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn span_id(bytes: &[u8]) -> Option<SpanId> {
    let id = u64::from_be_bytes(id_of(bytes)?);
    (id != 0).then_some(SpanId(id))
}

fn kind(kind: i32) -> SpanKind {
    match ProtoKind::try_from(kind) {
        Ok(ProtoKind::Server) => SpanKind::Server,
        Ok(ProtoKind::Client) => SpanKind::Client,
        Ok(ProtoKind::Producer) => SpanKind::Producer,
        Ok(ProtoKind::Consumer) => SpanKind::Consumer,
        Ok(ProtoKind::Internal | ProtoKind::Unspecified) | Err(_) => SpanKind::Internal,
    }
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match value(attributes, key)? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as ProtoSpan, Status};

    use super::super::store::QUIET;
    use super::super::store::tests::StoredSpan;
    use super::*;
    use crate::model::span::{LoadRole, LoadSpan};
    use crate::model::stats::{Phase, StepKind};
    use crate::sys::clock;

    pub(in crate::tool::receive) const PREFIX: u32 = 0xdead_beef;

    pub(in crate::tool::receive) fn run() -> RunId {
        RunId::new(1_796_046_301_000_000_000, 0x7f3a)
    }

    pub(in crate::tool::receive) fn prefix() -> TracePrefix {
        TracePrefix::new(PREFIX)
    }

    pub(in crate::tool::receive) fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    pub(in crate::tool::receive) fn string(key: &str, value: &str) -> KeyValue {
        attribute(key, Value::StringValue(value.into()))
    }

    /// A span of this run's trace `trace`.
    pub(in crate::tool::receive) fn proto(trace: u64, id: u64, name: &str) -> ProtoSpan {
        ProtoSpan {
            trace_id: prefix().trace(trace).0.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            name: name.into(),
            kind: ProtoKind::Server as i32,
            start_time_unix_nano: 1_000,
            end_time_unix_nano: 3_000,
            ..ProtoSpan::default()
        }
    }

    /// A span of a trace that is none of this run's.
    pub(in crate::tool::receive) fn foreign(id: u64) -> ProtoSpan {
        ProtoSpan { trace_id: vec![0xaa; 16], ..proto(1, id, "foreign") }
    }

    pub(in crate::tool::receive) fn request(
        resource: Vec<KeyValue>,
        spans: Vec<ProtoSpan>,
    ) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes: resource, ..Resource::default() }),
                scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        }
    }

    pub(in crate::tool::receive) fn of_service(spans: Vec<ProtoSpan>) -> ExportTraceServiceRequest {
        request(vec![string("service.name", "auth")], spans)
    }

    pub(in crate::tool::receive) fn of_scenario(spans: Vec<ProtoSpan>) -> ExportTraceServiceRequest {
        request(vec![string("service.name", "loadtest"), string(semconv::RUN_ID, run().as_str())], spans)
    }

    fn decode(request: &ExportTraceServiceRequest) -> (Vec<StoredSpan>, Passed, SpanStore) {
        let bytes = request.encode_to_vec();
        let mut store = SpanStore::new(64 << 20, QUIET);
        let mut decoder = Decoder::new(run(), prefix());
        let passed = decoder.ingest(&bytes, &mut store, clock::now()).unwrap();
        let kept: Vec<_> = store.take_all().into_iter().flat_map(|trace| trace.spans).collect();
        let arrivals = decoder.read(&bytes).unwrap().arrivals.into_iter();
        let spans = arrivals.filter(|arrival| kept.contains(&arrival.span)).map(StoredSpan::from).collect();
        (spans, passed, store)
    }

    fn single(request: &ExportTraceServiceRequest) -> StoredSpan {
        let (mut spans, ..) = decode(request);
        assert_eq!(spans.len(), 1);
        spans.remove(0)
    }

    pub(in crate::tool::receive) fn server(trace: u64, id: u64) -> StoredSpan {
        single(&of_service(vec![proto(trace, id, "GET /users")]))
    }

    pub(in crate::tool::receive) fn iteration(trace: u64, id: u64) -> StoredSpan {
        let attributes = vec![string(semconv::ROLE, "iteration")];
        single(&of_scenario(vec![ProtoSpan { attributes, ..proto(trace, id, "iteration") }]))
    }

    pub(in crate::tool::receive) fn request_span(trace: u64, id: u64) -> StoredSpan {
        let attributes = vec![string(semconv::STEP, "GET /users"), string(semconv::STEP_KIND, "request")];
        single(&of_scenario(vec![ProtoSpan { attributes, ..proto(trace, id, "GET /users") }]))
    }

    #[test]
    fn a_span_is_read_with_its_service() {
        let mut sent = proto(5, 9, "GET /users");
        sent.parent_span_id = 8_u64.to_be_bytes().to_vec();
        sent.status = Some(Status { code: StatusCode::Error as i32, ..Status::default() });
        let span = single(&of_service(vec![sent])).span;
        assert_eq!(
            span,
            Span {
                trace: prefix().trace(5),
                id: SpanId(9),
                parent: Some(SpanId(8)),
                service: "auth".into(),
                name: "GET /users".into(),
                kind: SpanKind::Server,
                start_ns: 1_000,
                end_ns: 3_000,
                error: true,
                load: None,
            }
        );
    }

    #[test]
    fn a_span_without_resource_belongs_to_an_unknown_service() {
        let mut request = of_service(vec![proto(1, 1, "a")]);
        request.resource_spans[0].resource = None;
        assert_eq!(&*single(&request).span.service, "unknown_service");
    }

    #[test]
    fn the_scenario_process_tells_the_role_of_its_spans() {
        let step = |kind: &str| {
            vec![
                string(semconv::SCENARIO, "auth"),
                string(semconv::STEP, "POST /login"),
                string(semconv::STEP_KIND, kind),
                string(semconv::PHASE, "reference"),
                attribute(semconv::WEIGHT, Value::DoubleValue(2.5)),
                attribute(semconv::EXPECTED, Value::BoolValue(true)),
            ]
        };
        for (attributes, role) in [
            (step("request"), LoadRole::Step { kind: StepKind::Request, name: "POST /login".into() }),
            (step("step"), LoadRole::Step { kind: StepKind::Step, name: "POST /login".into() }),
            (step("dance"), LoadRole::Author),
            ([step("step"), vec![string(semconv::ROLE, "iteration")]].concat(), LoadRole::Iteration),
            ([step("step"), vec![string(semconv::ROLE, "author")]].concat(), LoadRole::Author),
        ] {
            let sent = ProtoSpan { attributes, ..proto(1, 1, "a") };
            let want = LoadSpan {
                role,
                scenario: "auth".into(),
                phase: Phase::Reference,
                weight: 2.5,
                expected: true,
            };
            assert_eq!(single(&of_scenario(vec![sent.clone()])).span.load.as_deref(), Some(&want));
            assert_eq!(
                single(&of_service(vec![sent])).span.load,
                None,
                "a service cannot pose as the scenario"
            );
        }
    }

    #[test]
    fn a_weight_that_is_no_weight_counts_nothing() {
        for weight in [
            Value::DoubleValue(f64::NAN),
            Value::DoubleValue(f64::INFINITY),
            Value::DoubleValue(-1.0),
            Value::StringValue("2".into()),
        ] {
            let attributes = vec![attribute(semconv::WEIGHT, weight)];
            let sent = ProtoSpan { attributes, ..proto(1, 1, "a") };
            let load = single(&of_scenario(vec![sent])).span.load.unwrap();
            assert_eq!((load.weight, load.role.clone()), (0.0, LoadRole::Author));
        }
    }

    #[test]
    fn spans_of_other_traces_and_with_invalid_ids_are_counted_and_not_kept() {
        let bad = |trace: &[u8], span: &[u8]| ProtoSpan {
            trace_id: trace.to_vec(),
            span_id: span.to_vec(),
            ..ProtoSpan::default()
        };
        let own = prefix().trace(1).0.to_be_bytes();
        let (spans, passed, _) = decode(&of_service(vec![
            foreign(1),
            proto(1, 1, "kept"),
            bad(&[], &[1; 8]),
            bad(&[0; 16], &[1; 8]),
            bad(&own[..15], &[1; 8]),
            bad(&own, &[0; 8]),
            bad(&own, &[1; 7]),
        ]));
        assert_eq!(passed, Passed { foreign: 1, malformed: 5 });
        assert_eq!(spans.len(), 1);
    }

    #[test]
    fn a_malformed_request_leaves_nothing_behind() {
        let mut bytes = of_service(vec![proto(1, 1, "a")]).encode_to_vec();
        bytes.extend([0x0a, 9]);
        let mut store = SpanStore::new(64 << 20, QUIET);
        assert!(Decoder::new(run(), prefix()).ingest(&bytes, &mut store, clock::now()).is_err());
        assert_eq!(store.counts().kept, 0);
    }

    #[test]
    fn a_span_beyond_the_size_limit_has_its_trace_refused() {
        let (spans, _, store) = decode(&of_service(vec![
            proto(1, 1, "small"),
            proto(1, 2, &"x".repeat(SPAN_LIMIT)),
            proto(2, 1, "other"),
        ]));
        assert_eq!(spans.len(), 1);
        assert_eq!((store.counts().refused, store.counts().traces_refused), (2, 1));
    }

    #[test]
    fn names_are_cut_between_characters_and_their_secrets_are_left_out() {
        assert_eq!(single(&of_service(vec![proto(1, 1, &"é".repeat(300))])).span.name.len(), NAME_LIMIT);
        let name = single(&of_service(vec![proto(1, 1, "GET /a?token=canary")])).span.name;
        assert!(!name.contains("canary"), "{name}");
    }

    #[test]
    fn equal_names_and_sources_are_held_once_and_what_is_shared_is_bounded() {
        let mut decoder = Decoder::new(run(), prefix());
        let mut store = SpanStore::new(64 << 20, QUIET);
        for index in 0..SOURCES as u64 + 10 {
            let resource = vec![string("service.name", &format!("s{index}"))];
            let bytes = request(resource, vec![proto(index, 1, "a"), proto(index, 2, "a")]).encode_to_vec();
            decoder.ingest(&bytes, &mut store, clock::now()).unwrap();
        }
        assert!(decoder.sources.len() <= SOURCES);
        for trace in store.take_all() {
            assert!(Arc::ptr_eq(&trace.spans[0].name, &trace.spans[1].name));
            let raw = trace.raw.unwrap();
            assert!(Arc::ptr_eq(&raw[0].source, &raw[1].source));
        }
        for index in 0..=INTERNED {
            decoder.names.share_redacted(&index.to_string());
        }
        assert!(decoder.names.shared.len() <= INTERNED && decoder.names.redacted.len() <= INTERNED);
    }
}
