//! The embedded OTLP receiver: one loopback port that takes the spans of services and scenarios, keeps those of this run
//! and passes everything on to where the user wants it.

pub(crate) mod archive;
mod decode;
mod json;
pub(crate) mod redact;
pub(crate) mod store;
mod wire;
