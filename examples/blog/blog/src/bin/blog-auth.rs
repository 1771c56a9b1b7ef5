//! Runs the service of the same name.

use std::process::ExitCode;

use blog::{auth, service};

fn main() -> ExitCode {
    service::run("auth", auth::serve)
}
