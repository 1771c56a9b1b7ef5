//! The real program on real workspaces, against a server that counts.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]
#![expect(clippy::disallowed_methods, reason = "the rule is for the crate, and these tests are beside it")]

mod adding_up;
mod arrivals;
mod commands;
mod connections;
mod counts;
mod discovery;
mod errors;
mod interfaces;
mod quiet;
mod responses;
#[path = "../support/server.rs"]
mod server;
mod services;
mod tool;
mod workspace;
