//! What an encoded span says, read where it stands: nothing is allocated, and what prost would not decode is not read
//! either.

use std::str::from_utf8;

use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use super::wire::{Fields, Malformed, Value};

/// The fields of an encoded `opentelemetry.proto.trace.v1.Span` that are asked for here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpanView<'a> {
    pub(super) id: &'a [u8],
    pub(super) parent: &'a [u8],
    pub(super) name: &'a str,
    /// A `SpanKind`, or a number that stands for none.
    pub(super) kind: i32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) error: bool,
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Text(&'a str),
    Bool(bool),
    Double(f64),
    /// Of a kind that no attribute has that is looked at.
    Other,
}

impl<'a> SpanView<'a> {
    /// Reads a span, and tells `attribute` of each of its attributes. `None` for one that does not hold what a span does;
    /// an error where its fields cannot even be told apart.
    pub(super) fn read(
        bytes: &'a [u8],
        mut attribute: impl FnMut(&'a str, Scalar<'a>),
    ) -> Result<Option<Self>, Malformed> {
        let mut span = Some(Self::default());
        for field in Fields(bytes) {
            let (number, value) = field?;
            span = span.and_then(|span| span.with(number, value, &mut attribute));
        }
        Ok(span)
    }

    fn with(
        mut self,
        number: u32,
        value: Value<'a>,
        attribute: &mut impl FnMut(&'a str, Scalar<'a>),
    ) -> Option<Self> {
        match (number, value) {
            (1, Value::Bytes(_)) | (10 | 12 | 14, Value::Varint(_)) | (16, Value::Fixed32) => {}
            (2, Value::Bytes(id)) => self.id = id,
            (3, Value::Bytes(state)) => drop(from_utf8(state).ok()?),
            (4, Value::Bytes(parent)) => self.parent = parent,
            (5, Value::Bytes(name)) => self.name = from_utf8(name).ok()?,
            (6, Value::Varint(kind)) => self.kind = kind as i32,
            (7, Value::Fixed64(start)) => self.start_ns = start,
            (8, Value::Fixed64(end)) => self.end_ns = end,
            (9, Value::Bytes(bytes)) => {
                let (key, value) = key_value(bytes)?;
                attribute(key, value);
            }
            // Seldom there: not worth a reader of their own.
            (11, Value::Bytes(event)) => drop(Event::decode(event).ok()?),
            (13, Value::Bytes(link)) => drop(Link::decode(link).ok()?),
            (15, Value::Bytes(bytes)) => self.error = status(bytes, self.error)?,
            (1..=16, _) => return None,
            _ => {}
        }
        Some(self)
    }
}

fn key_value(bytes: &[u8]) -> Option<(&str, Scalar<'_>)> {
    let (mut key, mut value) = ("", Scalar::Other);
    for field in Fields(bytes) {
        match field.ok()? {
            (1, Value::Bytes(bytes)) => key = from_utf8(bytes).ok()?,
            // A message that comes twice is both, one over the other.
            (2, Value::Bytes(bytes)) => value = any_value(bytes, value)?,
            (3, Value::Varint(_)) => {}
            (1..=3, _) => return None,
            _ => {}
        }
    }
    Some((key, value))
}

fn any_value<'a>(bytes: &'a [u8], before: Scalar<'a>) -> Option<Scalar<'a>> {
    let mut value = before;
    for field in Fields(bytes) {
        value = match field.ok()? {
            (1, Value::Bytes(text)) => Scalar::Text(from_utf8(text).ok()?),
            (2, Value::Varint(bool)) => Scalar::Bool(bool != 0),
            (4, Value::Fixed64(bits)) => Scalar::Double(f64::from_bits(bits)),
            (3 | 8, Value::Varint(_)) | (7, Value::Bytes(_)) => Scalar::Other,
            (5, Value::Bytes(array)) => ArrayValue::decode(array).ok().map(|_| Scalar::Other)?,
            (6, Value::Bytes(list)) => KeyValueList::decode(list).ok().map(|_| Scalar::Other)?,
            (1..=8, _) => return None,
            _ => value,
        };
    }
    Some(value)
}

fn status(bytes: &[u8], before: bool) -> Option<bool> {
    let mut error = before;
    for field in Fields(bytes) {
        match field.ok()? {
            (2, Value::Bytes(message)) => drop(from_utf8(message).ok()?),
            (3, Value::Varint(code)) => error = code as i32 == StatusCode::Error as i32,
            (2 | 3, _) => return None,
            _ => {}
        }
    }
    Some(error)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
    use opentelemetry_proto::tonic::trace::v1::{Span, Status};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Attributes = Vec<(String, String)>;

    /// What prost makes of it.
    fn decoded(bytes: &[u8]) -> Option<(Span, Attributes)> {
        let span = Span::decode(bytes).ok()?;
        let told = |attribute: &KeyValue| {
            let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
                Some(any_value::Value::StringValue(text)) => Scalar::Text(text),
                Some(any_value::Value::BoolValue(bool)) => Scalar::Bool(*bool),
                Some(any_value::Value::DoubleValue(double)) => Scalar::Double(*double),
                _ => Scalar::Other,
            };
            (attribute.key.clone(), format!("{value:?}"))
        };
        let attributes = span.attributes.iter().map(told).collect();
        Some((span, attributes))
    }

    /// That what is read is what prost decodes; whether the bytes are a span.
    fn check(bytes: &[u8]) -> Result<bool, TestCaseError> {
        let mut attributes = Attributes::new();
        let view =
            SpanView::read(bytes, |key, value| attributes.push((key.to_owned(), format!("{value:?}"))));
        let view = view.ok().flatten();
        match (decoded(bytes), view) {
            (Some((span, wanted)), Some(view)) => {
                let status = span.status.unwrap_or_default();
                let wanted_view = SpanView {
                    id: &span.span_id,
                    parent: &span.parent_span_id,
                    name: &span.name,
                    kind: span.kind,
                    start_ns: span.start_time_unix_nano,
                    end_ns: span.end_time_unix_nano,
                    error: status.code == StatusCode::Error as i32,
                };
                prop_assert_eq!(view, wanted_view);
                prop_assert_eq!(attributes, wanted);
                Ok(true)
            }
            (None, None) => Ok(false),
            // Groups, which nobody writes, are not read here.
            (Some(_), None) if bytes.iter().any(|byte| byte & 7 == 3) => Ok(false),
            (decoded, view) => Err(TestCaseError::fail(format!("{decoded:?} but {view:?}"))),
        }
    }

    fn value() -> impl Strategy<Value = Option<AnyValue>> {
        use any_value::Value;
        let leaf = prop_oneof![
            ".{0,9}".prop_map(Value::StringValue),
            any::<bool>().prop_map(Value::BoolValue),
            any::<i64>().prop_map(Value::IntValue),
            any::<f64>().prop_map(Value::DoubleValue),
            vec(any::<u8>(), 0..9).prop_map(Value::BytesValue),
            any::<i32>().prop_map(Value::StringValueStrindex),
        ];
        let of = |value| AnyValue { value: Some(value) };
        let nested = leaf.prop_recursive(2, 8, 3, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(move |all| Value::ArrayValue(ArrayValue {
                    values: all.into_iter().map(of).collect()
                })),
                vec(inner, 0..3).prop_map(move |all| {
                    let pair =
                        |value| KeyValue { key: "k".into(), value: Some(of(value)), ..KeyValue::default() };
                    Value::KvlistValue(KeyValueList { values: all.into_iter().map(pair).collect() })
                }),
            ]
        });
        prop_oneof![
            Just(None),
            Just(Some(AnyValue::default())),
            nested.prop_map(move |value| Some(of(value)))
        ]
    }

    fn attribute() -> impl Strategy<Value = KeyValue> {
        (".{0,9}", value()).prop_map(|(key, value)| KeyValue { key, value, ..KeyValue::default() })
    }

    fn span() -> impl Strategy<Value = Span> {
        let ids =
            (vec(any::<u8>(), 0..17), vec(any::<u8>(), 0..9), vec(any::<u8>(), 0..9), ".{0,9}", ".{0,9}");
        let numbers = (any::<i32>(), any::<u64>(), any::<u64>(), any::<u32>());
        let status = prop::option::of((".{0,9}", 0..4).prop_map(|(message, code)| Status { message, code }));
        let more = (vec(attribute(), 0..4), vec(attribute(), 0..2), status);
        (ids, numbers, more).prop_map(|(ids, numbers, (attributes, of_others, status))| Span {
            trace_id: ids.0,
            span_id: ids.1,
            parent_span_id: ids.2,
            trace_state: ids.3,
            name: ids.4,
            kind: numbers.0,
            start_time_unix_nano: numbers.1,
            end_time_unix_nano: numbers.2,
            dropped_attributes_count: numbers.3,
            flags: numbers.3,
            attributes,
            events: vec![Event { attributes: of_others.clone(), ..Event::default() }],
            links: vec![Link { attributes: of_others, ..Link::default() }],
            status,
            ..Span::default()
        })
    }

    proptest! {
        #[test]
        fn a_span_is_read_as_it_was_written_and_one_over_another_too(one in span(), other in span()) {
            let (one, other) = (one.encode_to_vec(), other.encode_to_vec());
            prop_assert!(check(&one)?);
            prop_assert!(check(&[one, other].concat())?);
        }

        #[test]
        fn what_is_no_span_is_none_in_any_place_that_is_broken(
            span in span(),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = span.encode_to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            check(&bytes)?;
        }

        #[test]
        fn whatever_arrives_is_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
            check(&bytes)?;
        }
    }
}
