//! Pure values that both halves speak in: no IO, no clock.

pub(crate) mod arrivals;
pub(crate) mod custom;
pub(crate) mod distribution;
pub(crate) mod duration;
pub(crate) mod event;
pub(crate) mod flow;
pub(crate) mod health;
pub(crate) mod http;
pub(crate) mod id;
pub(crate) mod latency;
pub(crate) mod load;
pub(crate) mod metric_figures;
pub(crate) mod nearest;
pub(crate) mod phases;
pub(crate) mod plain;
pub(crate) mod plan;
pub(crate) mod redact;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod secret;
pub(crate) mod semconv;
pub(crate) mod span;
pub(crate) mod stats;
pub(crate) mod success;
pub(crate) mod summarise;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tags;
pub(crate) mod threshold;
pub(crate) mod verdict;
