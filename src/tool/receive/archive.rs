//! The traces of a run as a file of OTLP/JSON, one trace a line, as the Collector's file exporter writes them and its
//! receiver reads them.

use std::io::{self, Write};
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message;

use super::decode::Source;
use super::redact::Redactor;
use super::store::RawSpan;

/// How large the file may become.
pub(crate) const ARCHIVE_LIMIT: u64 = 256 << 20;

/// Writes traces to `out`, redacted, until the limit is reached.
#[derive(Debug)]
pub(crate) struct Archive<W> {
    out: W,
    redactor: Redactor,
    left: u64,
    /// Traces that found no room.
    omitted: u64,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W, redactor: Redactor, limit: u64) -> Self {
        Self { out, redactor, left: limit, omitted: 0 }
    }

    /// Writes one trace, or counts it as omitted.
    pub(crate) fn write(&mut self, trace: &[RawSpan]) -> io::Result<()> {
        // Most of what is encoded takes more room as JSON, so there is no need to try.
        let least = trace.iter().map(|span| span.bytes.len() as u64).sum::<u64>();
        if least > self.left {
            self.omitted += 1;
            return Ok(());
        }
        let mut line = serde_json::to_vec(&self.traces_data(trace))?;
        line.push(b'\n');
        let Some(left) = self.left.checked_sub(line.len() as u64) else {
            self.omitted += 1;
            return Ok(());
        };
        self.left = left;
        self.out.write_all(&line)
    }

    /// Writes out what is buffered. Gives the writer back, and how many traces found no room.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        self.out.flush()?;
        Ok((self.out, self.omitted))
    }

    fn traces_data(&self, trace: &[RawSpan]) -> TracesData {
        let mut sources: Vec<(&Arc<Source>, ResourceSpans)> = Vec::new();
        for raw in trace {
            // It was decoded once, when it was received.
            let Ok(mut span) = Span::decode(&*raw.bytes) else { continue };
            self.redact(&mut span);
            let at = sources.iter().position(|(source, _)| Arc::ptr_eq(source, &raw.source));
            let at = at.unwrap_or_else(|| {
                sources.push((&raw.source, self.group(&raw.source)));
                sources.len() - 1
            });
            sources[at].1.scope_spans[0].spans.push(span);
        }
        TracesData { resource_spans: sources.into_iter().map(|(_, group)| group).collect() }
    }

    fn group(&self, source: &Source) -> ResourceSpans {
        let mut resource = Resource::decode(&*source.resource).unwrap_or_default();
        self.redactor.attributes(&mut resource.attributes);
        let mut scope = InstrumentationScope::decode(&*source.scope).unwrap_or_default();
        self.redactor.attributes(&mut scope.attributes);
        ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: Vec::new(),
                schema_url: String::from_utf8_lossy(&source.scope_schema).into_owned(),
            }],
            schema_url: String::from_utf8_lossy(&source.resource_schema).into_owned(),
        }
    }

    fn redact(&self, span: &mut Span) {
        self.redactor.text(&mut span.name);
        self.redactor.attributes(&mut span.attributes);
        for event in &mut span.events {
            self.redactor.attributes(&mut event.attributes);
        }
        for link in &mut span.links {
            self.redactor.attributes(&mut link.attributes);
        }
        // Readers in the wild trip over `"status": null`.
        let status = span.status.get_or_insert_default();
        self.redactor.text(&mut status.message);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::span::Event;
    use serde_json::Value;

    use super::super::decode::tests::{iteration, proto, server, string};
    use super::*;
    use crate::model::secret::Secrets;

    fn raw(span: &Span) -> RawSpan {
        RawSpan { bytes: span.encode_to_vec().into(), ..server(1, 1).raw }
    }

    fn written(trace: &[RawSpan], limit: u64) -> (String, u64) {
        let mut out = Vec::new();
        let mut archive = Archive::new(&mut out, Redactor::new(Secrets::default()), limit);
        archive.write(trace).unwrap();
        let (_, omitted) = archive.finish().unwrap();
        (String::from_utf8(out).unwrap(), omitted)
    }

    #[test]
    fn a_trace_is_one_line_of_otlp_json_that_reads_back_as_it_was() {
        let spans = [proto(1, 1, "a"), proto(1, 2, "b")];
        let mut trace: Vec<_> = spans.iter().map(raw).collect();
        let source = trace[0].source.clone();
        for raw in &mut trace {
            raw.source = source.clone();
        }
        trace.push(iteration(1, 3).raw);
        let (line, omitted) = written(&trace, ARCHIVE_LIMIT);
        assert_eq!((line.lines().count(), line.ends_with('\n'), omitted), (1, true, 0));

        let json: Value = serde_json::from_str(&line).unwrap();
        let groups = json["resourceSpans"].as_array().unwrap();
        assert_eq!(groups.len(), 2);
        let first = &groups[0]["scopeSpans"][0]["spans"][0];
        assert_eq!(first["traceId"], "10ad7e57deadbeef0000000000000001");
        assert_eq!(first["spanId"], "0000000000000001");
        assert_eq!(first["startTimeUnixNano"], "1000");
        assert_eq!(first["kind"], 2);
        assert!(!line.contains("null"), "{line}");

        let read: TracesData = serde_json::from_str(&line).unwrap();
        let names: Vec<_> =
            read.resource_spans[0].scope_spans[0].spans.iter().map(|span| &span.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_canary_is_not_written() {
        let canary =
            || vec![string("url.full", "http://canary@host/?q=canary"), string("password", "canary")];
        let mut span = proto(1, 1, "GET /?q=canary");
        span.attributes = canary();
        span.events = vec![Event { attributes: canary(), ..Event::default() }];
        span.links = vec![opentelemetry_proto::tonic::trace::v1::span::Link {
            attributes: canary(),
            ..Default::default()
        }];
        span.status = Some(opentelemetry_proto::tonic::trace::v1::Status {
            message: "http://canary@host".into(),
            code: 2,
        });
        let (line, _) = written(&[raw(&span)], ARCHIVE_LIMIT);
        assert!(line.contains("password") && !line.contains("canary"), "{line}");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_file_stays_within_its_limit() {
        let trace = [raw(&proto(1, 1, "a"))];
        let length = written(&trace, ARCHIVE_LIMIT).0.len() as u64;
        for (limit, omitted) in [(length, 0), (length - 1, 1), (10, 1)] {
            let (line, was) = written(&trace, limit);
            assert_eq!((line.is_empty(), was), (omitted == 1, omitted), "{limit}");
        }
    }
}
