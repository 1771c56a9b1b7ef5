//! The three signals of OTLP, and what is told apart by signal.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use super::json::{self, JsonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    pub(crate) const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// The path of OTLP/HTTP.
    pub(crate) fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }

    /// The path of OTLP/gRPC.
    pub(crate) fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    /// An export request in protobuf, from its OTLP/JSON encoding.
    pub(super) fn protobuf(self, document: &[u8]) -> Result<Bytes, JsonError> {
        let bytes = match self {
            Self::Traces => json::read::<ExportTraceServiceRequest>(document)?.encode_to_vec(),
            Self::Metrics => json::read::<ExportMetricsServiceRequest>(document)?.encode_to_vec(),
            Self::Logs => json::read::<ExportLogsServiceRequest>(document)?.encode_to_vec(),
        };
        Ok(bytes.into())
    }
}

/// An export request as it came in, uncompressed.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) signal: Signal,
    pub(super) protobuf: Bytes,
    /// What was sent, if that was JSON.
    pub(super) json: Option<Bytes>,
}

impl Message {
    /// What it takes while it waits.
    pub(super) fn len(&self) -> usize {
        self.protobuf.len() + self.json.as_ref().map_or(0, Bytes::len)
    }
}
