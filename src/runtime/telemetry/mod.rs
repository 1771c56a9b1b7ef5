//! Spans and metrics of the load: which iterations are traced, what is said of them, and how it leaves the process.

pub(crate) mod author;
pub(crate) mod buffer;
mod custom;
mod deliver;
mod encode;
pub(crate) mod export;
mod intervals;
pub(crate) mod metrics;
pub(crate) mod resource;
pub(crate) mod sampling;
pub(crate) mod span;
pub(crate) mod tracer;
