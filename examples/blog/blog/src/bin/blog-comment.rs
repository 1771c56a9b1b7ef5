//! Runs the service of the same name.

use std::process::ExitCode;

use blog::{comment, service};

fn main() -> ExitCode {
    service::run("comment", comment::serve)
}
