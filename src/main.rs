//! The cargo subcommand.

fn main() -> std::process::ExitCode {
    loadtest::__cli::main()
}
