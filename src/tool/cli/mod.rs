//! The command line of `cargo loadtest`: each command reads as the pipeline that it is.

mod args;
mod collect;
mod config;
mod console;
mod find;
mod http_args;
mod list;
mod measure;
mod new;
mod peak;
mod problem;
mod report;
mod run;
mod session;
mod stop;

use std::process::ExitCode;

use clap::Parser as _;

use self::args::{CargoArgs, Cli, Command};
use self::console::Console;
use self::problem::Problem;
use self::stop::Stopper;
use crate::model::verdict::Outcome;
use crate::sys::{env, family};
use crate::tool::cargo::{Cargo, CargoFlags};
use crate::tool::services::guard;

/// What every command has.
#[derive(Debug)]
struct Invocation {
    console: Console,
    cargo: Cargo,
    flags: CargoFlags,
}

/// Runs the command that the arguments name and returns the code to exit with.
pub fn main() -> ExitCode {
    let mut arguments: Vec<_> = env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == guard::ARGUMENT) {
        return guard::main();
    }
    // As a cargo subcommand, the first argument is the subcommand's own name.
    if arguments.get(1).is_some_and(|argument| argument == "loadtest") {
        arguments.remove(1);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help is no error; what cannot be printed has no reader.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Outcome::Usage.code() } else { 0 });
        }
    };
    let command = cli.command.unwrap_or(Command::Run(Box::new(cli.run)));
    let cargo_args = match &command {
        Command::Run(args) => &args.cargo,
        Command::List(args) => &args.cargo,
        Command::New(args) => &args.cargo,
        Command::Config(args) => &args.cargo,
        Command::Report(args) => &args.cargo,
    };
    let console = Console::new(cargo_args);
    let ended = prepare(console, cargo_args).and_then(|call| carry_out(&call, &command));
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            console.error(&problem.message, problem.hint);
            ExitCode::from(problem.outcome.code())
        }
    }
}

fn prepare(console: Console, args: &CargoArgs) -> Result<Invocation, Problem> {
    let cargo = Cargo::from_env()
        .map_err(|error| Problem::new(Outcome::Usage, format!("cannot tell the working folder: {error}")))?;
    Ok(Invocation { console, cargo, flags: args.flags() })
}

fn carry_out(call: &Invocation, command: &Command) -> Result<u8, Problem> {
    let broken = |error| Problem::new(Outcome::CouldNotRun, format!("cannot start a runtime: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    runtime.block_on(async {
        let stopper = Stopper::listen().map_err(broken)?;
        // What a build starts outlives cargo, and should not outlive this.
        family::adopt_orphans().map_err(broken)?;
        let work = async {
            match command {
                Command::Run(args) => run::run(call, args, &stopper).await,
                Command::List(args) => list::list(call, args).await,
                Command::New(args) => new::new(call, args).await,
                Command::Config(args) => config::config(call, args).await,
                Command::Report(args) => report::report(call, args).await,
            }
        };
        tokio::select! {
            ended = work => ended,
            outcome = stopper.abandoned() => {
                family::end_all(&[], |_, _| false);
                Ok(outcome.code())
            }
        }
    })
}
