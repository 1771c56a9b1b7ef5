//! What leaves the tool over OTLP, seen by an endpoint that it forwards to, and by the servers under test.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests read clocks, start processes, and fail by panicking"
)]

mod custom;
mod forward;
mod metrics;
#[path = "../support/server.rs"]
mod server;
mod sink;
mod subscriber;
#[path = "../support/tool.rs"]
mod tool;
mod traces;
