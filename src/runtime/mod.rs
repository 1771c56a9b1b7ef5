//! The half that is linked into scenario binaries: it drives load, measures it and emits spans.

pub(crate) mod data;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod http;
pub(crate) mod record;
pub(crate) mod scenario;
pub(crate) mod telemetry;
