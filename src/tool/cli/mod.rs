//! The command line of `cargo loadtest`.

use std::process::ExitCode;

use crate::sys::env;
use crate::tool::services::guard;

/// Runs the command that the arguments name and returns the code to exit with.
pub fn main() -> ExitCode {
    match env::args().nth(1) {
        Some(argument) if argument == guard::ARGUMENT => guard::main(),
        _ => ExitCode::from(2),
    }
}
