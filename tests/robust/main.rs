//! What happens when something ends before its time, and what must never be written down: the real tool on a real
//! workspace.
#![cfg(target_os = "linux")]

mod canary;
mod interrupt;
mod kill;
#[path = "../support/server.rs"]
mod server;
#[path = "../support/tool.rs"]
mod tool;
