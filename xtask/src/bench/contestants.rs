//! What the benchmark runs: this generator under three ways of tracing, wrk, and oha.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::figures::Sample;
use super::usage;
use crate::summary::{Runs, Summary};
use crate::{process, tools};

/// The scenario, and the name of its target: what the process that runs it is called.
const SCENARIO: &str = "getroot";

/// Beyond the run itself: the tool asks cargo whether all is built, and waits for what is in flight.
const GRACE: Duration = Duration::from_mins(1);

/// Threads of wrk; as many as it is usually given on a small machine.
const WRK_THREADS: &str = "2";

pub(super) struct Contestant {
    pub(super) name: &'static str,
    program: PathBuf,
    folder: PathBuf,
    /// Where cargo, and with it the tool, puts what it makes in `folder`.
    target: PathBuf,
    /// `{address}` stands for the server's.
    arguments: Vec<String>,
    kind: Kind,
    limit: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Loadtest,
    Wrk,
    Oha,
}

pub(super) fn prepare(root: &Path, users: u32, seconds: u32) -> Result<Vec<Contestant>> {
    let wrk = tools::wrk(root)?;
    let oha = tools::OHA.obtain(root)?;
    eprintln!("wrk: {}\noha: {}", wrk.display(), oha.display());
    let tool = process::build(
        root,
        "cargo-loadtest",
        &["--release", "--package", "cargo-loadtest", "--bin", "cargo-loadtest"],
    )?;
    let workspace = root.join("target/xtask/bench");
    write_workspace(root, &workspace)?;
    let target = process::target_directory(&workspace)?;
    let mut build = process::program(&tool, &workspace);
    build.args(["loadtest", "run", SCENARIO, "--no-run"]);
    eprintln!("$ {}", process::shown(&build));
    process::run(&mut build)?;

    let limit = Duration::from_secs(seconds.into()) + GRACE;
    let contestant = |name, program: &Path, kind, arguments: String| {
        let arguments = arguments.split(' ').map(str::to_owned).collect();
        let (program, folder, target) = (program.to_owned(), workspace.clone(), target.clone());
        Contestant { name, program, folder, target, arguments, kind, limit }
    };
    let load = format!(
        "loadtest run {SCENARIO} --vus {users} --duration {seconds}s --base-url http://{{address}} --no-reference --no-otlp"
    );
    Ok(vec![
        contestant("loadtest --trace off", &tool, Kind::Loadtest, format!("{load} --trace off")),
        contestant("loadtest", &tool, Kind::Loadtest, load.clone()),
        contestant("loadtest --trace all", &tool, Kind::Loadtest, format!("{load} --trace all")),
        contestant(
            "wrk",
            &wrk,
            Kind::Wrk,
            format!("-t{WRK_THREADS} -c{users} -d{seconds}s http://{{address}}/"),
        ),
        contestant(
            "oha",
            &oha,
            Kind::Oha,
            format!("-c {users} -z {seconds}s --no-tui --output-format json http://{{address}}/"),
        ),
    ])
}

impl Contestant {
    pub(super) fn run(&self, address: &str) -> Result<Sample> {
        let mut command = process::program(&self.program, &self.folder);
        command.args(self.arguments.iter().map(|argument| argument.replace("{address}", address)));
        self.measured(&mut command).with_context(|| format!("`{}`", process::shown(&command)))
    }

    fn measured(&self, command: &mut Command) -> Result<Sample> {
        let ours = self.kind == Kind::Loadtest;
        let mut runs = Runs::in_target(&self.target);
        let usage = usage::measure(command, ours.then_some(SCENARIO), self.limit)?;
        ensure!(usage.status.success(), "ended with {}\n{}", usage.status, usage.stdout);
        let requests = match self.kind {
            Kind::Loadtest => of_summary(&Summary::read(&runs.added()?)?)?,
            Kind::Wrk => of_wrk(&usage.stdout)?,
            Kind::Oha => of_oha(&usage.stdout)?,
        };
        ensure!(requests > 0, "made no request");
        let (load, tool) = if ours { (usage.below, usage.program) } else { (usage.program, 0.0) };
        Ok(Sample { requests, load, tool })
    }
}

fn of_summary(summary: &Summary) -> Result<u64> {
    ensure!(summary.totals.errors == 0, "{} of its requests failed", summary.totals.errors);
    Ok(summary.totals.requests)
}

/// wrk says `  123456 requests in 10.00s, 15.00MB read`, and a line of errors only where there are some.
fn of_wrk(output: &str) -> Result<u64> {
    let failed = output.lines().find(|line| line.contains("Socket errors") || line.contains("Non-2xx"));
    ensure!(failed.is_none(), "{}", failed.unwrap_or_default().trim());
    let count = output.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    count.with_context(|| format!("does not say how many requests it made:\n{output}"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OhaReport {
    status_code_distribution: std::collections::BTreeMap<String, u64>,
}

fn of_oha(output: &str) -> Result<u64> {
    let report: OhaReport = serde_json::from_str(output).context("could not read its report")?;
    let other: Vec<_> = report.status_code_distribution.keys().filter(|status| *status != "200").collect();
    ensure!(other.is_empty(), "was answered with {other:?}");
    Ok(report.status_code_distribution.values().sum())
}

/// A workspace with one scenario, as a user would have it, that depends on this library by its path.
fn write_workspace(root: &Path, folder: &Path) -> Result<()> {
    let library = toml::Value::String(root.display().to_string());
    let manifest = format!(
        r#"[workspace]

[package]
name = "bench-workspace"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "lib.rs"

[dev-dependencies]
cargo-loadtest = {{ path = {library}, default-features = false }}

[[bench]]
name = "{SCENARIO}"
path = "loadtests/{SCENARIO}.rs"
harness = false
"#
    );
    let scenario = format!(
        r#"//! One request an iteration, and nothing else.

use loadtest::prelude::*;

async fn get_root(vu: &Vu) -> Result {{
    vu.get("/").send().await?.expect_status(200)?;
    Ok(())
}}

fn main() -> loadtest::ExitCode {{
    loadtest::main([scenario("{SCENARIO}", get_root)])
}}
"#
    );
    // The library's own lockfile, so that what is measured is what is tested.
    let lockfile = root.join("Cargo.lock");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        // Left alone where nothing changed, so that cargo does not build it again.
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    };
    fs::create_dir_all(folder.join("loadtests"))
        .with_context(|| format!("could not make {}", folder.display()))?;
    write("Cargo.toml", &manifest)?;
    write("lib.rs", "//! Nothing: the scenario is all there is.\n")?;
    write(&format!("loadtests/{SCENARIO}.rs"), &scenario)?;
    if !folder.join("Cargo.lock").is_file() {
        fs::copy(&lockfile, folder.join("Cargo.lock"))
            .with_context(|| format!("could not copy {}", lockfile.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{of_oha, of_wrk, write_workspace};
    use tempfile::TempDir;

    #[test]
    fn wrks_count_is_read_and_its_errors_are_not_overlooked() {
        let good = "Running 1s test\n  2 threads and 50 connections\n  52311 requests in 1.10s, 6.34MB read\nRequests/sec:  47555.1\n";
        assert_eq!(of_wrk(good).unwrap(), 52311);
        let errors = format!("{good}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert!(of_wrk(&errors).unwrap_err().to_string().contains("read 3"));
        let refused = format!("{good}  Non-2xx or 3xx responses: 12\n");
        assert!(of_wrk(&refused).is_err());
        assert!(of_wrk("unable to connect").is_err());
    }

    #[test]
    fn ohas_count_is_read_and_other_answers_are_not_overlooked() {
        assert_eq!(of_oha(r#"{"summary": {}, "statusCodeDistribution": {"200": 4711}}"#).unwrap(), 4711);
        assert!(of_oha(r#"{"statusCodeDistribution": {"200": 4711, "500": 1}}"#).is_err());
        assert!(of_oha("no report").is_err());
    }

    #[test]
    fn the_workspace_is_one_that_cargo_reads_and_it_is_not_written_twice() {
        let folder = TempDir::new().unwrap();
        write_workspace(crate::root(), folder.path()).unwrap();
        let manifest = folder.path().join("Cargo.toml");
        let written = std::fs::metadata(&manifest).unwrap().modified().unwrap();
        write_workspace(crate::root(), folder.path()).unwrap();
        assert_eq!(std::fs::metadata(&manifest).unwrap().modified().unwrap(), written);
        let mut command = crate::process::cargo(folder.path());
        let metadata = command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata = crate::process::output(metadata).unwrap();
        assert!(metadata.contains(r#""kind":["bench"]"#), "{metadata}");
    }
}
