//! Load tests in Rust that say where the time went.
//!
//! This is the library that a scenario links; the `cargo loadtest` subcommand finds, builds and runs scenarios.

#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the tool half uses the rest of what both halves speak in")
)]
mod model;
mod protocol;
mod runtime;
mod sys;
#[cfg(feature = "cli")]
mod tool;

pub use runtime::data::{Feeder, csv, json, rows};
pub use runtime::error::{Error, Result};
pub use runtime::host::main;
pub use runtime::http::{Batch, Cookies, Form, HttpOptions, Request, Response, StatusSet, Timings};
pub use runtime::scenario::{
    Counter, Gauge, Limit, Number, Pause, Rate, Scenario, Stage, Stateful, Trend, TrendValue, Vu, limit,
    millis, mins, mix, scenario, secs, stage, stateful,
};
pub use runtime::telemetry::author::tracing_layer;
/// What [`main`] returns.
pub use std::process::ExitCode;

/// Everything that a scenario usually needs.
pub mod prelude {
    pub use super::{
        Feeder, Result, Scenario, Vu, csv, json, limit, millis, mins, mix, scenario, secs, stage, stateful,
    };
    pub use std::time::Duration;
}

/// The pages whose examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/scenarios.md")]
#[doc = include_str!("../docs/from-k6.md")]
mod pages {}

#[doc(hidden)]
#[cfg(feature = "cli")]
pub mod __cli {
    pub use crate::tool::cli::main;
}
