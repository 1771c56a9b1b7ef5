//! OTLP/gRPC. Messages go through undecoded, so that they can be forwarded byte for byte.

use std::future::{Ready, ready};
use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Buf, BufMut, Bytes};
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};

use super::super::signal::{Message, Signal};
use super::http::{ErrorBody, Refusal, media_type};
use super::{MESSAGE_LIMIT, Shared};

pub(super) const CONTENT_TYPE: &str = "application/grpc";
const STATUS: &str = "grpc-status";

pub(super) async fn export(shared: Arc<Shared>, signal: Signal, request: Request) -> Response {
    let is_grpc = media_type(request.headers())
        .is_some_and(|kind| kind == CONTENT_TYPE || kind == "application/grpc+proto");
    if !is_grpc {
        return ErrorBody::of(request.headers()).response(&Refusal::WrongType);
    }
    let mut response = Grpc::new(Raw)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .unary(Export { shared: shared.clone(), signal }, request)
        .await
        .map(Body::new);
    match status(response.headers()) {
        // What is too large: tonic's `OUT_OF_RANGE` would have it sent again.
        Some(Code::OutOfRange) => {
            response.headers_mut().insert(STATUS, HeaderValue::from(Code::ResourceExhausted as i32));
        }
        Some(Code::InvalidArgument | Code::Internal) => shared.counters.malformed.add(1),
        _ => {}
    }
    response
}

/// Whether a response says in its headers that a call failed.
pub(super) fn is_error(headers: &HeaderMap) -> bool {
    status(headers).is_some_and(|code| code != Code::Ok)
}

fn status(headers: &HeaderMap) -> Option<Code> {
    headers.get(STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

struct Export {
    shared: Arc<Shared>,
    signal: Signal,
}

impl UnaryService<Bytes> for Export {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let message = Message { signal: self.signal, protobuf: request.into_inner(), json: None };
        ready(match self.shared.accept(message) {
            Ok(()) => Ok(tonic::Response::new(Bytes::new())),
            Err(malformed) => Err(Status::invalid_argument(malformed.to_string())),
        })
    }
}

/// Leaves messages as they are.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
