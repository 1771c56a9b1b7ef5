//! Runs the service of the same name.

use std::process::ExitCode;

use blog::{gateway, service};

fn main() -> ExitCode {
    service::run("gateway", gateway::serve)
}
