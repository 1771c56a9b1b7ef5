//! The real program on real workspaces, against a server that counts.

mod adding_up;
mod commands;
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
