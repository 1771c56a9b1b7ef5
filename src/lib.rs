//! Load tests in Rust that say where the time went.
//!
//! This is the library that a scenario links; the `cargo loadtest` subcommand finds, builds and runs scenarios.

#[expect(dead_code, reason = "filled in step by step")]
mod model;
mod protocol;
mod runtime;
mod sys;
#[cfg(feature = "cli")]
mod tool;
