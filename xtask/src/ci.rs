//! `cargo xtask ci`: everything that a change must pass, each step announced with its command, timed, and listed at the
//! end. A step that cannot run has failed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::{process, tools};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run all steps, also after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Run only the steps whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// How a step's command comes about; what it needs is installed first.
type Prepare = Box<dyn Fn() -> Result<Command>>;

struct Step {
    name: String,
    prepare: Prepare,
}

impl Step {
    fn new(name: impl Into<String>, prepare: impl Fn() -> Result<Command> + 'static) -> Self {
        Self { name: name.into(), prepare: Box::new(prepare) }
    }
}

/// The example whose load tests run, too: they take seconds. Those of the blog are `cargo xtask demo`.
const UNDER_LOAD: &str = "k6-style";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    NotRun,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let mut steps = repository(root);
    for example in examples(root)? {
        steps.extend(example_workspace(root, &example));
    }
    if let Some(text) = &options.only {
        steps.retain(|step| step.name.contains(text.as_str()));
        ensure!(!steps.is_empty(), "no step has {text:?} in its name");
    }
    let results = run_steps(&steps, options.keep_going);
    print!("{}", table(&results));
    let failed: Vec<_> = results.iter().filter(|(_, outcome, _)| *outcome != Outcome::Passed).collect();
    ensure!(failed.is_empty(), "{} of {} steps did not pass", failed.len(), results.len());
    Ok(())
}

fn repository(root: &Path) -> Vec<Step> {
    let cargo = |name: &str, arguments: &'static [&'static str]| cargo_step(name, root, arguments);
    let deny_root = root.to_owned();
    let docs_root = root.to_owned();
    let test_root = root.to_owned();
    vec![
        cargo("lockfile", &["fetch", "--locked"]),
        cargo("fmt", &["fmt", "--all", "--check"]),
        cargo("tidy", &["run", "--quiet", "--package", "xtask", "--", "tidy"]),
        cargo(
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
        ),
        cargo(
            "library alone",
            &[
                "clippy",
                "--package",
                "cargo-loadtest",
                "--lib",
                "--no-default-features",
                "--",
                "-D",
                "warnings",
            ],
        ),
        Step::new("docs", move || {
            let mut command = process::cargo(&docs_root);
            command.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
            command.env("RUSTDOCFLAGS", "-D warnings");
            Ok(command)
        }),
        Step::new("deny", move || deny(&deny_root, &deny_root)),
        Step::new("tests", move || tests(&test_root, &test_root)),
    ]
}

/// The same for an example, which is a workspace of its own.
fn example_workspace(root: &Path, example: &Path) -> Vec<Step> {
    let name = example.strip_prefix(root).unwrap_or(example).display().to_string();
    let cargo = |step: &str, arguments: &'static [&'static str]| {
        cargo_step(&format!("{name}: {step}"), example, arguments)
    };
    let (deny_root, deny_example) = (root.to_owned(), example.to_owned());
    let (load_root, load_example) = (root.to_owned(), example.to_owned());
    let (test_root, test_example) = (root.to_owned(), example.to_owned());
    let mut steps = vec![
        cargo("lockfile", &["fetch", "--locked"]),
        cargo("fmt", &["fmt", "--all", "--check"]),
        cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::new(format!("{name}: deny"), move || deny(&deny_root, &deny_example)),
        Step::new(format!("{name}: tests"), move || tests(&test_root, &test_example)),
    ];
    if example.ends_with(UNDER_LOAD) {
        steps.push(Step::new(format!("{name}: load"), move || Ok(load(&load_root, &load_example))));
    }
    steps
}

/// `cargo loadtest` as it is here, in an example.
fn load(root: &Path, example: &Path) -> Command {
    let mut command = process::cargo(example);
    command.args(["run", "--quiet", "--package", "cargo-loadtest", "--manifest-path"]);
    command.arg(root.join("Cargo.toml")).args(["--", "loadtest", "--locked"]);
    command
}

fn cargo_step(name: &str, folder: &Path, arguments: &'static [&'static str]) -> Step {
    let folder = folder.to_owned();
    Step::new(name, move || {
        let mut command = process::cargo(&folder);
        command.args(arguments);
        Ok(command)
    })
}

/// Licences, bans and sources; advisories need a database that is not reachable everywhere, so the workflow has them.
fn deny(root: &Path, workspace: &Path) -> Result<Command> {
    let mut command = process::program(tools::DENY.obtain(root)?, workspace);
    command.args(["--all-features", "--locked", "--config"]).arg(root.join("deny.toml"));
    // The exceptions for one workspace are unused in another.
    command.args(["check", "--allow", "license-exception-not-encountered", "bans", "licenses", "sources"]);
    Ok(command)
}

/// `cargo test`, so that doctests run too. Nextest is for the tests that show how scenarios behave under it.
fn tests(root: &Path, workspace: &Path) -> Result<Command> {
    let mut command = process::cargo(workspace);
    command
        .args(["test", "--workspace", "--all-features"])
        .env("CARGO_LOADTEST_NEXTEST", tools::NEXTEST.obtain(root)?);
    Ok(command)
}

fn examples(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("examples");
    let entries = fs::read_dir(&folder).with_context(|| format!("could not list {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("could not list {}", folder.display()))?.path();
        if path.join("Cargo.toml").is_file() {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "{} holds no example workspace", folder.display());
    found.sort();
    Ok(found)
}

fn run_steps(steps: &[Step], keep_going: bool) -> Vec<(&str, Outcome, Duration)> {
    let mut stopped = false;
    let run = |step: &Step| {
        let started = Instant::now();
        let result = (step.prepare)().and_then(|mut command| {
            eprintln!("\n== {}\n$ {}", step.name, process::shown(&command));
            process::run(&mut command)
        });
        if let Err(error) = &result {
            eprintln!("error: {}: {error:#}", step.name);
        }
        (if result.is_ok() { Outcome::Passed } else { Outcome::Failed }, started.elapsed())
    };
    let mut results = Vec::new();
    for step in steps {
        let (outcome, time) = if stopped { (Outcome::NotRun, Duration::ZERO) } else { run(step) };
        stopped |= outcome == Outcome::Failed && !keep_going;
        results.push((step.name.as_str(), outcome, time));
    }
    results
}

fn table(results: &[(&str, Outcome, Duration)]) -> String {
    let width = results.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let mut text = String::from("\n");
    for (name, outcome, time) in results {
        let word = match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::NotRun => "not run",
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name:<width$}  {word:<7}  {:>7.1} s", time.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use anyhow::bail;
    use tempfile::TempDir;

    use super::{Outcome, Step, examples, run_steps, table};
    use crate::process;

    fn steps() -> Vec<Step> {
        let program = |name: &'static str| Step::new(name, move || Ok(process::program(name, crate::root())));
        vec![
            program("true"),
            program("false"),
            Step::new("cannot run", || bail!("its tool could not be installed")),
            Step::new("cannot start", || Ok(process::program("no-such-program-anywhere", crate::root()))),
            program("true"),
        ]
    }

    fn outcomes(keep_going: bool) -> Vec<Outcome> {
        run_steps(&steps(), keep_going).into_iter().map(|(_, outcome, _)| outcome).collect()
    }

    #[test]
    fn the_first_failure_stops_and_the_rest_is_listed_as_not_run() {
        use Outcome::{Failed, NotRun, Passed};
        assert_eq!(outcomes(false), [Passed, Failed, NotRun, NotRun, NotRun]);
    }

    #[test]
    fn a_step_that_cannot_run_has_failed() {
        use Outcome::{Failed, Passed};
        assert_eq!(outcomes(true), [Passed, Failed, Failed, Failed, Passed]);
    }

    #[test]
    fn the_table_lists_every_step() {
        let results = [
            ("fmt", Outcome::Passed, Duration::from_millis(1240)),
            ("library alone", Outcome::Failed, Duration::from_secs(90)),
            ("docs", Outcome::NotRun, Duration::ZERO),
        ];
        let expected = "
fmt            passed       1.2 s
library alone  FAILED      90.0 s
docs           not run      0.0 s
";
        assert_eq!(table(&results), expected);
    }

    #[test]
    fn examples_are_the_workspaces_in_their_folder_and_there_is_one_at_least() {
        let root = TempDir::new().unwrap();
        assert!(examples(root.path()).is_err());
        fs::create_dir_all(root.path().join("examples/notes")).unwrap();
        assert!(examples(root.path()).is_err());
        for name in ["rooms", "blog"] {
            fs::create_dir_all(root.path().join("examples").join(name)).unwrap();
            fs::write(root.path().join("examples").join(name).join("Cargo.toml"), "[workspace]\n").unwrap();
        }
        let names: Vec<_> =
            examples(root.path()).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["blog", "rooms"]);
    }
}
