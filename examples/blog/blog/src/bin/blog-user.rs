//! Runs the service of the same name.

use std::process::ExitCode;

use blog::{service, user};

fn main() -> ExitCode {
    service::run("user", user::serve)
}
