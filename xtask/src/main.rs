//! The tasks of this repository: `cargo xtask demo`, `ci`, `tidy`, `bench`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command of the repository speaks on its terminal"
)]

mod bench;
mod ci;
mod claims;
mod demo;
mod process;
mod summary;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the blog example's auth scenario at bcrypt cost 12, then 10, and show the difference
    Demo,
    /// Run everything that a change must pass
    Ci(ci::Options),
    /// Check the architecture rules
    Tidy,
    /// Measure the generator's CPU, memory and lateness beside wrk, oha and Goose
    Bench(bench::Options),
    /// Answer every request with a few bytes, until standard input closes
    #[cfg(feature = "server")]
    #[command(hide = true)]
    Serve,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo => demo::run(root()),
        Task::Ci(options) => ci::run(root(), &options),
        Task::Tidy => tidy::run(root()),
        Task::Bench(options) => bench::run(root(), &options),
        #[cfg(feature = "server")]
        Task::Serve => bench::server::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in a folder of the repository")
}
