//! OTLP/JSON as it occurs: normalised until the generated types take it.

use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

/// A document may have this many values: decoded, each takes many times the two bytes it can be written in.
const VALUES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum JsonError {
    #[error("malformed JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("malformed JSON: an export request is an object")]
    NoObject,
    #[error("more than {VALUES} values in one request")]
    TooMany,
}

/// Reads a message from its OTLP/JSON encoding. Beyond what the generated types accept: `null` is absence, enums can be
/// names, keys can be in `snake_case`, empty lists can be left out, small numbers can be strings.
pub(super) fn read<M: DeserializeOwned>(document: &[u8]) -> Result<M, JsonError> {
    if !values_within(document, VALUES) {
        return Err(JsonError::TooMany);
    }
    // serde_json refuses more than 128 levels.
    let mut value: Value = serde_json::from_slice(document)?;
    if !value.is_object() {
        return Err(JsonError::NoObject);
    }
    normalise(&mut value);
    Ok(serde_json::from_value(value)?)
}

/// Whether the document has at most `limit` values: each but the first of a list or an object comes after a comma, each
/// first after a bracket.
fn values_within(document: &[u8], limit: usize) -> bool {
    let mut values = 1;
    let mut in_string = false;
    let mut bytes = document.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' | b',' if !in_string => values += 1,
            _ => {}
        }
        if values > limit {
            return false;
        }
    }
    true
}

fn normalise(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(normalise);
        }
        Value::Object(fields) => {
            for (key, mut value) in std::mem::take(fields) {
                normalise(&mut value);
                let camel = camel_case(&key);
                // A key in the standard's own spelling wins.
                if camel != key && fields.contains_key(&camel) {
                    continue;
                }
                if let Some(value) = field(&camel, value) {
                    fields.insert(camel, value);
                }
            }
            if fields.contains_key("value") {
                fields.entry("key").or_insert_with(|| Value::String(String::new()));
            }
        }
        _ => {}
    }
}

/// `trace_id` → `traceId`. All keys of OTLP/JSON are names of fields; keys of attributes are values in it.
fn camel_case(key: &str) -> String {
    let mut camel = String::with_capacity(key.len());
    let mut upper = false;
    for c in key.chars() {
        if c == '_' {
            upper = true;
        } else {
            camel.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    camel
}

/// The value as the generated types take it in the field `key`; `None`: as if it were not there.
fn field(key: &str, value: Value) -> Option<Value> {
    Some(match (key, value) {
        (_, Value::Null) => return None,
        ("arrayValue" | "kvlistValue", Value::Object(mut fields)) => {
            fields.entry("values").or_insert_with(|| Value::Array(Vec::new()));
            Value::Object(fields)
        }
        ("kind" | "code" | "severityNumber" | "aggregationTemporality", Value::String(name)) => {
            let number = match key {
                "kind" => SpanKind::from_str_name(&name).map(i32::from),
                "code" => StatusCode::from_str_name(&name).map(i32::from),
                "severityNumber" => SeverityNumber::from_str_name(&name).map(i32::from),
                _ => AggregationTemporality::from_str_name(&name).map(i32::from),
            };
            number.or_else(|| name.parse().ok()).map_or(Value::String(name), Value::from)
        }
        // The generated types take strings for 64-bit integers only.
        ("flags" | "scale" | "offset", Value::String(text)) => integer(text),
        (_, Value::String(text)) if key.starts_with("dropped") && key.ends_with("Count") => integer(text),
        ("doubleValue" | "asDouble" | "sum" | "min" | "max" | "quantile", Value::String(text)) => {
            match text.parse::<f64>() {
                // JSON has no numbers for NaN and the infinities.
                Ok(number) => Value::Number(Number::from_f64(number)?),
                Err(_) => Value::String(text),
            }
        }
        (_, value) => value,
    })
}

fn integer(text: String) -> Value {
    text.parse::<i64>().map_or(Value::String(text), Value::from)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    fn span(fields: &str) -> Result<Span, JsonError> {
        let document = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{fields}]}}]}}]}}"#);
        read::<ExportTraceServiceRequest>(document.as_bytes())
            .map(|mut request| request.resource_spans.remove(0).scope_spans.remove(0).spans.remove(0))
    }

    #[test]
    fn what_senders_write_is_read() {
        let full = Span {
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            name: "a".into(),
            kind: 2,
            start_time_unix_nano: 5,
            ..Span::default()
        };
        let ids = format!(r#""traceId":"{}","spanId":"{}","name":"a""#, "ab".repeat(16), "CD".repeat(8));
        let snake = format!(r#""trace_id":"{}","span_id":"{}","name":"a""#, "AB".repeat(16), "cd".repeat(8));
        for (text, want) in [
            ("{}".to_owned(), Span::default()),
            (r#"{"name":null,"attributes":null,"events":[null],"status":null}"#.to_owned(), Span::default()),
            (r#"{"unknown":{"a_b":[1]}}"#.to_owned(), Span::default()),
            (format!(r#"{{{ids},"kind":2,"startTimeUnixNano":"5"}}"#), full.clone()),
            (format!(r#"{{{ids},"kind":"SPAN_KIND_SERVER","startTimeUnixNano":5}}"#), full.clone()),
            (format!(r#"{{{snake},"kind":"2","start_time_unix_nano":"5"}}"#), full.clone()),
            (r#"{"droppedLinksCount":"3"}"#.to_owned(), Span { dropped_links_count: 3, ..Span::default() }),
            (r#"{"name":"a","na_me":"b"}"#.to_owned(), Span { name: "a".into(), ..Span::default() }),
        ] {
            assert_eq!(span(&text).unwrap(), want, "{text}");
        }
        let status = span(r#"{"status":{"code":"STATUS_CODE_ERROR"}}"#).unwrap().status.unwrap();
        assert_eq!(status.code, 2);
    }

    #[test]
    fn values_of_attributes_are_read() {
        let list = |values| Any::ArrayValue(opentelemetry_proto::tonic::common::v1::ArrayValue { values });
        for (text, want) in [
            (r#"{"intValue":"-7"}"#, Some(Any::IntValue(-7))),
            (r#"{"int_value":7}"#, Some(Any::IntValue(7))),
            (r#"{"doubleValue":"1.5"}"#, Some(Any::DoubleValue(1.5))),
            (r#"{"doubleValue":"NaN"}"#, None),
            (r#"{"bytesValue":"AQI="}"#, Some(Any::BytesValue(vec![1, 2]))),
            (r#"{"arrayValue":{}}"#, Some(list(vec![]))),
            (r#"{"stringValue":"a_b"}"#, Some(Any::StringValue("a_b".into()))),
        ] {
            let attribute = span(&format!(r#"{{"attributes":[{{"key":"k_k","value":{text}}}]}}"#)).unwrap();
            assert_eq!(attribute.attributes[0].key, "k_k");
            assert_eq!(attribute.attributes[0].value.clone().unwrap().value, want, "{text}");
        }
        assert_eq!(span(r#"{"attributes":[{"value":{"intValue":1}}]}"#).unwrap().attributes[0].key, "");
    }

    #[test]
    fn the_other_signals_are_read() {
        let metrics = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{
            "aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA","isMonotonic":true,
            "dataPoints":[{"asInt":"5","timeUnixNano":"1","flags":"1"}]}}]}]}]}"#;
        assert_eq!(
            read::<ExportMetricsServiceRequest>(metrics.as_bytes()).unwrap().resource_metrics.len(),
            1
        );
        let logs = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"SEVERITY_NUMBER_INFO",
            "body":{"stringValue":"hello"},"traceId":""}]}]}]}"#;
        assert_eq!(read::<ExportLogsServiceRequest>(logs.as_bytes()).unwrap().resource_logs.len(), 1);
        assert!(read::<ExportLogsServiceRequest>(b"{}").is_ok());
        assert!(read::<ExportMetricsServiceRequest>(b"{}").is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            r#"{"traceId":"xyz"}"#,
            r#"{"kind":"SPAN_KIND_ODD"}"#,
            r#"{"name":5}"#,
            r#"{"startTimeUnixNano":"-1"}"#,
            "{",
        ] {
            assert!(matches!(span(text), Err(JsonError::Malformed(_))), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(read::<ExportTraceServiceRequest>(deep.as_bytes()), Err(JsonError::Malformed(_))));
        let many = format!("[{}0]", "0,".repeat(VALUES));
        assert!(matches!(read::<ExportTraceServiceRequest>(many.as_bytes()), Err(JsonError::TooMany)));
        for text in ["[]", "null", "5"] {
            assert!(matches!(read::<ExportTraceServiceRequest>(text.as_bytes()), Err(JsonError::NoObject)));
        }
    }

    #[test]
    fn what_stands_in_strings_is_no_value() {
        assert!(values_within(br#"{"a":"[,,,\",,,"}"#, 2));
        assert!(!values_within(br#"{"a":[1]}"#, 2));
    }
}
