//! What a scenario binary does when it is started: list, run for the tool, run alone, or nothing at all.

mod alone;
mod gate;
mod observe;
pub(crate) mod panics;
mod preflight;
mod run;
#[cfg(test)]
#[path = "../../../tests/support/server.rs"]
mod server;
#[cfg(test)]
mod tests;
mod told;
mod users;
mod vitals;

use std::process::ExitCode;

use crate::protocol::{SOCKET_ENV, TOKEN_ENV};
use crate::runtime::scenario::Scenario;
use crate::sys::env;

/// The `main` of a scenario binary.
///
/// Load starts only when it is asked for: by `cargo loadtest`, or by `--run` or `LOADTEST_RUN=1` when the
/// binary is started alone. Anything else, such as `cargo test --all-targets` or `cargo bench`, ends at once with exit
/// code 0.
///
/// ```no_run
/// use loadtest::prelude::*;
///
/// async fn front(vu: &Vu) -> Result {
///     vu.get("/").send().await?;
///     Ok(())
/// }
///
/// fn main() -> loadtest::ExitCode {
///     loadtest::main([scenario("front", front).constant_vus(10, secs(30))])
/// }
/// ```
pub fn main(scenarios: impl IntoIterator<Item = Scenario>) -> ExitCode {
    let scenarios: Vec<Scenario> = scenarios.into_iter().collect();
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let (Some(socket), Some(token)) = (env::var(SOCKET_ENV), env::var(TOKEN_ENV)) {
        return told::serve(scenarios, &socket, token).unwrap_or_else(idle);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        // Test runners ask so for tests: there are none.
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--run")
        || env::var("LOADTEST_RUN").is_some_and(|value| value == "1")
    {
        return alone::run(scenarios);
    }
    idle()
}

#[expect(clippy::print_stderr, reason = "the one line of a binary that was not asked to run")]
fn idle() -> ExitCode {
    eprintln!("load tests run with `cargo loadtest`, or alone with `--run`; nothing was started");
    ExitCode::SUCCESS
}
