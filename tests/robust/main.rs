//! What happens when something ends before its time, and what must never be written down: the real tool on a real
//! workspace.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests read clocks, start processes, and fail by panicking"
)]

mod aborted;
mod canary;
mod descriptors;
mod interrupt;
mod kill;
mod running;
#[path = "../support/server.rs"]
mod server;
mod stopped;
#[path = "../support/tool.rs"]
mod tool;
mod unfit;
