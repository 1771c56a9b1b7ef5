//! Walking protobuf bytes without decoding them: what a message holds is seen without allocating, so that data that
//! nobody asked for costs next to nothing to turn away.

use std::fmt;

/// Bytes that are no protobuf message, or not the one expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed protobuf: {}", self.0)
    }
}

/// A field's value, as far as the wire tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
}

/// The fields of one message, in the order in which they stand.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Keys and lengths have one byte, nearly always.
        match self.0.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.0 = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        const TOO_LARGE: Malformed = Malformed("a number has more than 64 bits");
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed("a number is cut off"))?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return if shift == 63 && byte > 1 { Err(TOO_LARGE) } else { Ok(value) };
            }
        }
        Err(TOO_LARGE)
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length))
            .ok_or(Malformed("a field is longer than its message"))?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key =
            u32::try_from(self.varint()?).map_err(|_| Malformed("a field number has more than 29 bits"))?;
        let number = key >> 3;
        if number == 0 {
            return Err(Malformed("field number 0"));
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes"))),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            _ => return Err(Malformed("unknown wire type")),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Of each of the fields `numbers` the last one, as bytes; empty if there is none.
fn bytes_fields<const N: usize>(message: &[u8], numbers: [u32; N]) -> Result<[&[u8]; N], Malformed> {
    let mut found: [&[u8]; N] = [&[]; N];
    for field in Fields(message) {
        let (number, value) = field?;
        if let Some(at) = numbers.iter().position(|wanted| *wanted == number) {
            let Value::Bytes(bytes) = value else {
                return Err(Malformed("a number where a message belongs"));
            };
            found[at] = bytes;
        }
    }
    Ok(found)
}

/// Calls `visit` with each message in the repeated field `number`.
fn each<'a>(
    message: &'a [u8],
    number: u32,
    mut visit: impl FnMut(&'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    for field in Fields(message) {
        match field? {
            (at, Value::Bytes(bytes)) if at == number => visit(bytes)?,
            (at, _) if at == number => return Err(Malformed("a number where a message belongs")),
            _ => {}
        }
    }
    Ok(())
}

/// Where a group of items comes from: a resource, and an instrumentation scope in it. Encoded messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin<'a> {
    pub(super) resource: &'a [u8],
    pub(super) resource_schema: &'a [u8],
    pub(super) scope: &'a [u8],
    pub(super) scope_schema: &'a [u8],
}

impl Origin<'_> {
    /// Whether it is the same place in the same message, which says that it is equal without comparing it.
    pub(super) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.resource, other.resource)
            && std::ptr::eq(self.resource_schema, other.resource_schema)
            && std::ptr::eq(self.scope, other.scope)
            && std::ptr::eq(self.scope_schema, other.scope_schema)
    }

    pub(super) fn len(&self) -> usize {
        self.resource.len() + self.resource_schema.len() + self.scope.len() + self.scope_schema.len()
    }
}

/// Calls `visit` with each item (a span, a metric, a log record) of an export request. The requests of the three
/// signals have one shape: resources (1) with a resource (1), scopes (2) and a schema URL (3), each scope with a scope
/// (1), items (2) and a schema URL (3).
pub(super) fn each_item<'a>(
    request: &'a [u8],
    mut visit: impl FnMut(&Origin<'a>, &'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    each(request, 1, |of_resource| {
        let [resource, resource_schema] = bytes_fields(of_resource, [1, 3])?;
        each(of_resource, 2, |of_scope| {
            let [scope, scope_schema] = bytes_fields(of_scope, [1, 3])?;
            let origin = Origin { resource, resource_schema, scope, scope_schema };
            each(of_scope, 2, |item| visit(&origin, item))
        })
    })
}

/// Whether `request` is well-formed down to the fields of its items.
pub(super) fn check(request: &[u8]) -> Result<(), Malformed> {
    each_item(request, |_, item| check_fields(item))
}

/// Whether `message` is well-formed, its fields not looked into.
pub(super) fn check_fields(message: &[u8]) -> Result<(), Malformed> {
    Fields(message).try_for_each(|field| field.map(drop))
}

/// The trace id (field 1) of an encoded span, whatever its length.
pub(super) fn trace_id(span: &[u8]) -> Result<&[u8], Malformed> {
    // Encoders write fields in order, so the first field is the one, nearly always.
    match Fields(span).next().transpose()? {
        Some((1, Value::Bytes(id))) => Ok(id),
        _ => bytes_fields(span, [1]).map(|[id]| id),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn request(spans: &[Span]) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { dropped_attributes_count: 7, ..Resource::default() }),
                scope_spans: vec![ScopeSpans {
                    spans: spans.to_vec(),
                    schema_url: "scope".into(),
                    ..ScopeSpans::default()
                }],
                schema_url: "resource".into(),
            }],
        }
    }

    #[test]
    fn items_are_found_with_the_resource_and_scope_they_belong_to() {
        let span = Span { trace_id: vec![9; 16], name: "a".into(), ..Span::default() };
        let bytes = request(&[span.clone(), Span::default()]).encode_to_vec();
        let mut seen = Vec::new();
        each_item(&bytes, |origin, item| {
            assert_eq!(Resource::decode(origin.resource).unwrap().dropped_attributes_count, 7);
            assert_eq!((origin.resource_schema, origin.scope_schema), (&b"resource"[..], &b"scope"[..]));
            seen.push((trace_id(item)?.to_vec(), Span::decode(item).unwrap()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(vec![9; 16], span), (vec![], Span::default())]);
    }

    #[test]
    fn a_trace_id_is_found_when_it_does_not_come_first() {
        // name = "a", then trace_id = [7, 7]
        assert_eq!(trace_id(&[0x2a, 1, b'a', 0x0a, 2, 7, 7]), Ok(&[7, 7][..]));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bytes in [
            &[0x0a][..],
            &[0x0a, 5, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x08, 1],
            &[0x0b],
            &[0x02, 0],
            &[0xff; 11],
        ] {
            assert!(check(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_walked_holds_what_prost_decodes(
            names in prop::collection::vec(".{0,20}", 0..5), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let spans: Vec<_> =
                names.into_iter().map(|name| Span { trace_id: vec![9; 16], name, ..Span::default() }).collect();
            let mut bytes = request(&spans).encode_to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut walked = Vec::new();
            let walk = each_item(&bytes, |_, span| {
                check_fields(span)?;
                walked.push(span);
                Ok(())
            });
            prop_assert_eq!(walk, check(&bytes));
            let Ok(decoded) = ExportTraceServiceRequest::decode(&bytes[..]) else { return Ok(()) };
            if let Err(malformed) = walk {
                prop_assert_eq!(malformed.0, "unknown wire type", "groups, which no message of OTLP has");
                return Ok(());
            }
            let scopes = decoded.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans);
            let decoded: Vec<Span> = scopes.flat_map(|of_scope| of_scope.spans).collect();
            prop_assert_eq!(walked.len(), decoded.len());
            for (walked, decoded) in walked.into_iter().zip(decoded) {
                let ids = Fields(walked).flatten().filter(|(number, _)| *number == 1).count();
                prop_assert!(ids != 1 || trace_id(walked) == Ok(&decoded.trace_id[..]), "{:?}", decoded);
                prop_assert_eq!(Span::decode(walked), Ok(decoded));
            }
        }

        #[test]
        fn bytes_that_nobody_encoded_are_fields_to_the_last_byte_or_malformed(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            // A field takes two bytes at least.
            let fields = Fields(&bytes).take_while(Result::is_ok).count();
            prop_assert!(2 * fields <= bytes.len());
            let is_whole = check_fields(&bytes).is_ok();
            prop_assert_eq!(is_whole, Fields(&bytes).count() == fields);
            if is_whole {
                prop_assert!(check_fields(&bytes.repeat(2)).is_ok(), "a message may follow a message");
            }
        }

        #[test]
        fn what_prost_writes_is_well_formed(names in prop::collection::vec(".{0,20}", 0..5), cut in 1_usize..40) {
            let spans: Vec<_> = names.into_iter().map(|name| Span { name, ..Span::default() }).collect();
            let bytes = request(&spans).encode_to_vec();
            prop_assert_eq!(check(&bytes), Ok(()));
            prop_assert!(check(&bytes[..bytes.len() - cut.min(bytes.len() - 1)]).is_err());
        }
    }
}
