//! OTLP/HTTP: protobuf and JSON, plain or gzip, and the errors as the specification wants them.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use prost::Message as _;
use serde::Serialize;
use tonic::Code;

use super::super::json::JsonError;
use super::super::signal::{Message, Signal};
use super::super::wire::Malformed;
use super::{MESSAGE_LIMIT, Shared, grpc};

pub(super) const PROTOBUF: &str = "application/x-protobuf";
pub(super) const JSON: &str = "application/json";

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("no such path; signals go to /v1/traces, /v1/metrics and /v1/logs")]
    NotFound,
    #[error("signals are sent with POST")]
    WrongMethod,
    #[error("the Host must name a loopback address and the port of this receiver")]
    WrongHost,
    #[error("the content type must be {PROTOBUF} or {JSON}")]
    WrongType,
    #[error("the content encoding must be gzip or none")]
    WrongEncoding,
    #[error("more than {} MiB in one request", MESSAGE_LIMIT >> 20)]
    TooLarge,
    #[error("the request took too long")]
    TooSlow,
    #[error("too much is being received at once; try again")]
    Busy,
    #[error("the request was cut off: {0}")]
    CutOff(#[source] axum::Error),
    #[error("malformed gzip: {0}")]
    Gzip(#[source] std::io::Error),
    #[error(transparent)]
    Json(JsonError),
    #[error(transparent)]
    Protobuf(#[from] Malformed),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::WrongHost => StatusCode::FORBIDDEN,
            Self::WrongType | Self::WrongEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge | Self::Json(JsonError::TooMany) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::CutOff(_) | Self::Gzip(_) | Self::Json(_) | Self::Protobuf(_) => StatusCode::BAD_REQUEST,
        }
    }

    fn code(&self) -> Code {
        match self.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Code::Unimplemented,
            StatusCode::FORBIDDEN => Code::PermissionDenied,
            StatusCode::PAYLOAD_TOO_LARGE => Code::ResourceExhausted,
            StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
            StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            _ => Code::InvalidArgument,
        }
    }
}

/// `google.rpc.Status`, the body of an error.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(in crate::tool::receive) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(in crate::tool::receive) code: i32,
    #[prost(string, tag = "2")]
    pub(in crate::tool::receive) message: String,
}

/// How a client wants to be told of an error: as it speaks itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorBody {
    Protobuf,
    Json,
    Grpc,
}

impl ErrorBody {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match media_type(headers).as_deref() {
            Some(JSON) => Self::Json,
            Some(other) if other.starts_with(grpc::CONTENT_TYPE) => Self::Grpc,
            _ => Self::Protobuf,
        }
    }

    pub(super) fn response(self, refusal: &Refusal) -> Response {
        let status = RpcStatus { code: refusal.code() as i32, message: refusal.to_string() };
        let (content_type, body) = match self {
            Self::Grpc => return tonic::Status::new(refusal.code(), status.message).into_http::<Body>(),
            Self::Json => (JSON, serde_json::to_vec(&status).unwrap_or_default()),
            Self::Protobuf => (PROTOBUF, status.encode_to_vec()),
        };
        let mut response = (refusal.status(), [(header::CONTENT_TYPE, content_type)], body).into_response();
        match refusal {
            Refusal::WrongMethod => {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            }
            Refusal::WrongEncoding => {
                response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            }
            Refusal::Busy => {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// The content type without parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

pub(super) async fn not_found(headers: HeaderMap) -> Response {
    ErrorBody::of(&headers).response(&Refusal::NotFound)
}

pub(super) async fn method_not_allowed(headers: HeaderMap) -> Response {
    ErrorBody::of(&headers).response(&Refusal::WrongMethod)
}

pub(super) async fn export(shared: Arc<Shared>, signal: Signal, request: Request) -> Response {
    let error_body = ErrorBody::of(request.headers());
    match accept(&shared, signal, request).await {
        // An empty message is nothing in protobuf, and `{}` in JSON.
        Ok(()) if error_body == ErrorBody::Json => ([(header::CONTENT_TYPE, JSON)], "{}").into_response(),
        Ok(()) => [(header::CONTENT_TYPE, PROTOBUF)].into_response(),
        Err(refusal) => {
            if refusal.status() == StatusCode::BAD_REQUEST {
                shared.counters.malformed.add(1);
            }
            error_body.response(&refusal)
        }
    }
}

async fn accept(shared: &Shared, signal: Signal, request: Request) -> Result<(), Refusal> {
    let (parts, body) = request.into_parts();
    let is_json = match media_type(&parts.headers).as_deref() {
        Some(PROTOBUF) => false,
        Some(JSON) => true,
        _ => return Err(Refusal::WrongType),
    };
    let gzip = match parts.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None => false,
        Some(encoding) if encoding.eq_ignore_ascii_case(b"gzip") => true,
        Some(encoding) if encoding.eq_ignore_ascii_case(b"identity") || encoding.is_empty() => false,
        Some(_) => return Err(Refusal::WrongEncoding),
    };
    let announced =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut body = read(body, announced.unwrap_or_default()).await?;
    if gzip {
        body = decompress(&body)?;
    }
    let message = if is_json {
        let protobuf = signal.protobuf(&body).map_err(Refusal::Json)?;
        Message { signal, protobuf, json: Some(body) }
    } else {
        Message { signal, protobuf: body, json: None }
    };
    Ok(shared.accept(message)?)
}

/// Room that a `content-length` alone makes; what comes beyond it grows as it comes.
const MOST_RESERVED: usize = 1 << 20;

/// Reads a body to its end. One that is too large is read on for a while and thrown away, as many clients look at the
/// answer only when they have sent all.
async fn read(body: Body, announced: usize) -> Result<Bytes, Refusal> {
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::with_capacity(announced.min(MOST_RESERVED));
    let mut length = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| if is_busy(&error) { Refusal::Busy } else { Refusal::CutOff(error) })?;
        length += chunk.len();
        if length > 2 * MESSAGE_LIMIT {
            return Err(Refusal::TooLarge);
        }
        if length > MESSAGE_LIMIT {
            whole = BytesMut::new();
        } else {
            whole.extend_from_slice(&chunk);
        }
    }
    if length > MESSAGE_LIMIT { Err(Refusal::TooLarge) } else { Ok(whole.freeze()) }
}

/// Whether an error while reading is that there was no room.
fn is_busy(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<tonic::Status>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn decompress(body: &[u8]) -> Result<Bytes, Refusal> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(body)
        .take(MESSAGE_LIMIT as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(Refusal::Gzip)?;
    if plain.len() > MESSAGE_LIMIT {
        return Err(Refusal::TooLarge);
    }
    Ok(plain.into())
}
