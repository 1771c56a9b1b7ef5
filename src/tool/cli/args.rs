//! The flags, as clap reads them, and their way into the plain values that the rest works with.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::http_args::HttpArgs;
use crate::model::duration;
use crate::model::load::{Rate, Stage};
use crate::model::plan::TracePolicy;
use crate::model::table::Column;
use crate::tool::cargo::CargoFlags;
use crate::tool::config;
use crate::tool::usage::Target;

/// Load tests in Rust that say where the time went.
#[derive(Debug, Parser)]
#[command(
    name = "cargo loadtest",
    bin_name = "cargo loadtest",
    version,
    args_conflicts_with_subcommands = true
)]
#[command(
    after_help = "Exit codes: 0 passed, 2 usage or configuration, 4 no scenario matched, 99 a threshold failed, \
                        101 a build failed, 102 something could not run, 104 the measurement is invalid, \
                        130/143 interrupted."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Build and run the scenarios that match (the default)
    Run(Box<RunArgs>),
    /// List the scenarios, with their load and thresholds
    List(ListArgs),
    /// Write a new scenario: its file, its [[bench]] entry, the dependency
    New(NewArgs),
    /// Show the effective configuration, and where each value comes from
    Config(ConfigArgs),
    /// Render the report of a stored run again
    Report(ReportArgs),
}

/// Command names: a filter that equals one is more likely a command in the wrong place.
pub(super) const COMMANDS: [&str; 5] = ["run", "list", "new", "config", "report"];

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) which: WhichArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) settings: SettingArgs,
    /// Build everything, run nothing
    #[arg(long, help_heading = "Run")]
    pub(super) no_run: bool,
    /// Do not start the configured services
    #[arg(long, help_heading = "Run")]
    pub(super) no_services: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    #[command(flatten)]
    pub(super) cargo: CargoArgs,
}

#[derive(Debug, Args)]
pub(super) struct WhichArgs {
    /// Only scenarios whose `package::scenario` contains one of these
    #[arg(value_name = "FILTER")]
    pub(super) filters: Vec<String>,
    /// What to do when no scenario matches
    #[arg(long, help_heading = "Run", value_name = "ACTION", default_value = "fail")]
    pub(super) no_tests: NoTests,
}

#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// The form of the output on stdout
    #[arg(long, help_heading = "Run", value_name = "FORMAT", default_value = "human")]
    pub(super) message_format: MessageFormat,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load, in place of the scenario's own")]
pub(super) struct LoadArgs {
    /// Number of virtual users
    #[arg(long, value_name = "N")]
    vus: Option<u32>,
    /// How long, such as 30s or 1m30s
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Number of iterations
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    /// One leg of a ramp, such as 30s:20; repeat it, or separate legs by commas
    #[arg(long = "stage", value_name = "D:N", value_delimiter = ',')]
    stages: Vec<Stage>,
    /// Iterations that start in a time, such as 100/s, 6/m or 1/10s, whatever becomes of the earlier ones
    #[arg(long, value_name = "N/D")]
    rate: Option<Rate>,
    /// Users that a rate may have at most
    #[arg(long, value_name = "N")]
    max_vus: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Settings, over loadtest.toml and the environment")]
pub(super) struct SettingArgs {
    /// The system under test
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// What `vu.env(KEY)` answers
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = key_value)]
    env: Vec<(String, String)>,
    /// Read no .env file
    #[arg(long)]
    no_env_file: bool,
    /// The profile of loadtest.toml
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Which iterations are traced: all, off, rate:N/s or ratio:F
    #[arg(long, value_name = "POLICY")]
    trace: Option<TracePolicy>,
    /// Tell what this process uses of the host, too: its name as `ps -e -o comm` prints it, or its id; repeat it
    #[arg(long, value_name = "NAME|PID", value_delimiter = ',')]
    watch: Vec<Target>,
    /// Decides about arrivals at random: the same seed makes the same ones
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// No iterations alone before the load
    #[arg(long)]
    no_reference: bool,
    /// Forward spans and metrics to this OTLP endpoint, too
    #[arg(long, value_name = "URL", conflicts_with = "no_otlp")]
    otlp_endpoint: Option<String>,
    /// Forward nothing, whatever is configured
    #[arg(long)]
    no_otlp: bool,
    #[command(flatten)]
    http: HttpArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(super) struct ColumnArgs {
    /// The table's columns, such as count,avg,p90,max
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    columns: Vec<Column>,
    /// What the requests' time consists of: waiting for a connection, connecting, TLS, sending, …
    #[arg(long)]
    pub(super) phases: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cargo")]
pub(super) struct CargoArgs {
    /// Package with scenarios
    #[arg(short = 'p', long = "package", value_name = "SPEC")]
    package: Vec<String>,
    /// All packages of the workspace
    #[arg(long)]
    workspace: bool,
    /// Leave a package out (with --workspace)
    #[arg(long, value_name = "SPEC")]
    exclude: Vec<String>,
    /// Features of scenario packages
    #[arg(short = 'F', long, value_name = "FEATURES")]
    features: Vec<String>,
    /// All features of scenario packages
    #[arg(long)]
    all_features: bool,
    /// No default feature of scenario packages
    #[arg(long)]
    no_default_features: bool,
    /// The profile that services are built with [default: release]
    #[arg(long, value_name = "PROFILE")]
    cargo_profile: Option<String>,
    /// Target triple
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Directory for all artifacts and results
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Number of parallel build jobs
    #[arg(short = 'j', long, value_name = "N", allow_hyphen_values = true)]
    jobs: Option<String>,
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// Override a configuration value of cargo's
    #[arg(long, value_name = "KEY=VALUE|PATH")]
    config: Vec<String>,
    /// Run without the network
    #[arg(long)]
    offline: bool,
    /// Require that Cargo.lock does not change
    #[arg(long)]
    locked: bool,
    /// --locked and --offline
    #[arg(long)]
    frozen: bool,
    /// Say more; repeat for still more
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(super) verbose: u8,
    /// Only errors and the report
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorWhen,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) which: WhichArgs,
    #[command(flatten)]
    pub(super) settings: SettingArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) cargo: CargoArgs,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The scenario's name: letters, digits, `_` and `-`
    pub(super) name: String,
    /// Take the library from this folder
    #[arg(long, value_name = "DIR", conflicts_with = "git")]
    pub(super) path: Option<PathBuf>,
    /// Take the library from this git repository
    #[arg(long, value_name = "URL")]
    pub(super) git: Option<String>,
    #[command(flatten)]
    pub(super) cargo: CargoArgs,
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) settings: SettingArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) cargo: CargoArgs,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The run: its id or the beginning of it [default: the newest]
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    /// Make the report of a run that was killed, from its journal
    #[arg(long)]
    pub(super) recover: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    #[command(flatten)]
    pub(super) cargo: CargoArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum NoTests {
    Fail,
    Warn,
    Pass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MessageFormat {
    Human,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorWhen {
    Auto,
    Always,
    Never,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl ColumnArgs {
    pub(super) fn columns(&self) -> Vec<Column> {
        if self.columns.is_empty() { Column::STANDARD.to_vec() } else { self.columns.clone() }
    }
}

impl CargoArgs {
    pub(super) fn flags(&self) -> CargoFlags {
        let color = match self.color {
            ColorWhen::Auto => None,
            ColorWhen::Always => Some("always".to_owned()),
            ColorWhen::Never => Some("never".to_owned()),
        };
        CargoFlags {
            packages: self.package.clone(),
            workspace: self.workspace,
            exclude: self.exclude.clone(),
            features: self.features.clone(),
            all_features: self.all_features,
            no_default_features: self.no_default_features,
            cargo_profile: self.cargo_profile.clone(),
            target: self.target.clone(),
            target_dir: self.target_dir.clone(),
            jobs: self.jobs.clone(),
            manifest_path: self.manifest_path.clone(),
            config: self.config.clone(),
            offline: self.offline,
            locked: self.locked,
            frozen: self.frozen,
            verbose: self.verbose,
            quiet: self.quiet,
            color,
        }
    }
}

impl SettingArgs {
    /// With `load`, where the command has it.
    pub(super) fn flags(&self, load: Option<&LoadArgs>) -> config::Flags {
        config::Flags {
            profile: self.profile.clone(),
            base_url: self.base_url.clone(),
            env: self.env.clone(),
            no_env_file: self.no_env_file,
            vus: load.and_then(|load| load.vus),
            duration: load.and_then(|load| load.duration),
            iterations: load.and_then(|load| load.iterations),
            stages: load.map(|load| load.stages.clone()).unwrap_or_default(),
            rate: load.and_then(|load| load.rate),
            max_vus: load.and_then(|load| load.max_vus),
            seed: self.seed,
            trace: self.trace,
            no_reference: self.no_reference,
            watch: self.watch.clone(),
            http: self.http.flags(),
            otlp_endpoint: self.otlp_endpoint.clone(),
            no_otlp: self.no_otlp,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound_and_names_every_command() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<&str> =
            command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
        assert_eq!(names, COMMANDS);
        command.debug_assert();
    }

    #[test]
    fn a_run_without_its_name_takes_the_same_flags() {
        for line in [
            &["cargo loadtest", "auth", "--stage", "1s:2,2s:0"][..],
            &["cargo loadtest", "run", "auth", "--stage", "1s:2", "--stage", "2s:0"],
        ] {
            let cli = Cli::try_parse_from(line).unwrap();
            let run = match cli.command {
                Some(Command::Run(run)) => *run,
                _ => cli.run,
            };
            assert_eq!(run.which.filters, ["auth"]);
            assert_eq!(run.settings.flags(Some(&run.load)).stages.len(), 2);
        }
        assert!(
            Cli::try_parse_from(["cargo loadtest", "--duration", "10"])
                .unwrap_err()
                .to_string()
                .contains("unit")
        );
    }
}
