//! What the benchmark runs: this generator under three ways of tracing, wrk, oha and Goose.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::usage::{self, Look, Resident, Usage};
use super::workspace::{self, SCENARIO};
use crate::summary::{Runs, Summary};
use crate::{process, tools};

/// Beyond the run itself: the tool asks cargo whether all is built, and waits for what is in flight.
const GRACE: Duration = Duration::from_mins(1);

/// And for each user: Goose makes a TLS client for each before its run begins, which takes it about 10 ms.
const GRACE_A_USER: Duration = Duration::from_millis(30);

/// The tool's exit code where it says that the generator was not fit to measure: it goes as fast as it can here, which is
/// what is asked of it.
const UNFIT: i32 = 104;

/// Threads of wrk; as many as it is usually given on a small machine.
const WRK_THREADS: u32 = 2;

/// What a contestant is asked to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Load {
    /// Each user starts its next request when its last is answered.
    Closed { users: u32, seconds: u32 },
    /// Requests start at a constant rate, whatever the answers do, made by at most so many users.
    Open { rate: u32, users: u32, seconds: u32 },
}

impl Load {
    /// The longest that it is waited for.
    fn limit(self) -> Duration {
        match self {
            Self::Closed { users, seconds } | Self::Open { users, seconds, .. } => {
                Duration::from_secs(seconds.into()) + GRACE + GRACE_A_USER * users
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    /// Where cargo, and with it the tool, puts what it makes in `folder`.
    target: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With flags of its own.
    Loadtest(&'static str),
    Wrk,
    Oha,
    Goose,
}

/// What was seen of one run.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) requests: u64,
    ours: bool,
    looks: Vec<Look>,
}

impl Observed {
    /// CPU seconds of the process that makes the requests, and of the tool around it, which are zero where there is none;
    /// from so long after the start on.
    pub(super) fn cpu_since(&self, start: Duration) -> (f64, f64) {
        let before = self.looks.iter().rev().find(|look| look.at <= start);
        let before = before.map_or((0.0, 0.0), |look| (look.program, look.below));
        let all = self.looks.last().map_or((0.0, 0.0), |look| (look.program, look.below));
        let (program, below) = (all.0 - before.0, all.1 - before.1);
        if self.ours { (below, program) } else { (program, 0.0) }
    }

    /// Resident bytes of both in the same order, at each look.
    pub(super) fn resident(&self) -> Vec<(u64, u64)> {
        let looks = self.looks.iter().filter_map(|look| look.resident);
        looks
            .map(|Resident { program, below }| if self.ours { (below, program) } else { (program, 0) })
            .collect()
    }
}

pub(super) fn prepare(root: &Path) -> Result<Vec<Contestant>> {
    let wrk = tools::wrk(root)?;
    let oha = tools::OHA.obtain(root)?;
    let goose = workspace::goose(root)?;
    let tool = process::build(
        root,
        "cargo-loadtest",
        &["--release", "--package", "cargo-loadtest", "--bin", "cargo-loadtest"],
    )?;
    let folder = root.join("target/xtask/bench");
    workspace::write(root, &folder)?;
    let target = process::target_directory(&folder)?;
    let mut build = process::program(&tool, &folder);
    build.args(["loadtest", "run", SCENARIO, "--no-run"]);
    eprintln!("$ {}", process::shown(&build));
    process::run(&mut build)?;

    let contestant = |name, kind, program: &Path| {
        let (program, folder, target) = (program.to_owned(), folder.clone(), target.clone());
        Contestant { name, kind, program, folder, target }
    };
    Ok(vec![
        contestant("loadtest --trace off", Kind::Loadtest("--trace off"), &tool),
        contestant("loadtest", Kind::Loadtest(""), &tool),
        contestant("loadtest --trace all", Kind::Loadtest("--trace all"), &tool),
        contestant("wrk", Kind::Wrk, &wrk),
        contestant("oha", Kind::Oha, &oha),
        contestant("goose", Kind::Goose, &goose),
    ])
}

impl Contestant {
    /// Runs it against the server at `address`. Nothing where it cannot make such a load.
    pub(super) fn run(&self, load: Load, address: &str) -> Option<Result<Observed>> {
        let mut command = process::program(&self.program, &self.folder);
        command.args(arguments(self.kind, load, address)?.split_whitespace());
        let observed = self.measured(&mut command, load.limit());
        Some(observed.with_context(|| format!("`{}`", process::shown(&command))))
    }

    fn measured(&self, command: &mut Command, limit: Duration) -> Result<Observed> {
        let ours = matches!(self.kind, Kind::Loadtest(_));
        let mut runs = Runs::in_target(&self.target);
        let usage = usage::measure(command, ours.then_some(SCENARIO), limit)?;
        let Usage { status, stdout, complaint, looks } = usage;
        let unfit = ours && status.code() == Some(UNFIT);
        ensure!(status.success() || unfit, "ended with {status}\n{stdout}{complaint}");
        let requests = match self.kind {
            Kind::Loadtest(_) => of_summary(&Summary::read(&runs.added()?)?)?,
            Kind::Wrk => of_wrk(&stdout)?,
            Kind::Oha => of_oha(&stdout)?,
            Kind::Goose => of_goose(&stdout)?,
        };
        ensure!(requests > 0, "made no request");
        Ok(Observed { requests, ours, looks })
    }
}

/// The command line of a load, each word apart by a space. Nothing where there is none for it.
fn arguments(kind: Kind, load: Load, address: &str) -> Option<String> {
    let url = format!("http://{address}");
    Some(match (kind, load) {
        (Kind::Loadtest(own), Load::Closed { users, seconds }) => format!(
            "loadtest run {SCENARIO} --vus {users} --duration {seconds}s --base-url {url} --no-reference --no-otlp {own}"
        ),
        (Kind::Wrk, Load::Closed { users, seconds }) => {
            format!("-t{} -c{users} -d{seconds}s {url}/", WRK_THREADS.min(users))
        }
        (Kind::Oha, Load::Closed { users, seconds }) => {
            format!("-c {users} -z {seconds}s --no-tui --output-format json {url}/")
        }
        (Kind::Oha, Load::Open { rate, users, seconds }) => {
            format!("-q {rate} -c {users} -z {seconds}s --no-tui --output-format json {url}/")
        }
        // All users in the first second, and what they do in it counts too.
        (Kind::Goose, Load::Closed { users, seconds }) => {
            format!("-H {url} -u {users} -r {users} -t {seconds}s -q --no-telnet --no-reset-metrics")
        }
        (Kind::Goose, Load::Open { rate, users, seconds }) => format!(
            "-H {url} -u {users} -r {users} -t {seconds}s --throttle-requests {rate} -q --no-telnet --no-reset-metrics"
        ),
        (Kind::Wrk | Kind::Loadtest(_), Load::Open { .. }) => return None,
    })
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

/// The program of the attack ends with `123456 requests succeeded, 0 failed`.
fn of_goose(output: &str) -> Result<u64> {
    let last = output.lines().last().unwrap_or_default();
    let counts = last.split_once(" requests succeeded, ").and_then(|(succeeded, rest)| {
        let failed: u64 = rest.strip_suffix(" failed")?.parse().ok()?;
        Some((succeeded.parse::<u64>().ok()?, failed))
    });
    let (succeeded, failed) = counts.with_context(|| format!("ended with {last:?}"))?;
    ensure!(failed == 0, "{failed} of its requests failed");
    Ok(succeeded)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Look, Observed, Resident, of_goose, of_oha, of_wrk};

    #[test]
    fn what_was_used_before_the_first_request_is_not_counted() {
        let look = |at, program, below| {
            let resident = Some(Resident { program: at, below: 1 });
            Look { at: Duration::from_millis(at), program, below, resident }
        };
        let looks = vec![look(10, 0.5, 0.0), look(20, 1.0, 0.25), look(30, 2.0, 4.25)];
        let of = |ours| Observed { requests: 1, ours, looks: looks.clone() };
        let since = |ours, at| of(ours).cpu_since(Duration::from_millis(at));
        assert_eq!(since(true, 25), (4.0, 1.0));
        assert_eq!(since(true, 5), (4.25, 2.0));
        assert_eq!(since(false, 20), (1.0, 0.0));
        assert_eq!(of(true).resident(), [(1, 10), (1, 20), (1, 30)]);
        assert_eq!(of(false).resident(), [(10, 0), (20, 0), (30, 0)]);
    }

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
    fn gooses_count_is_read_and_its_failures_are_not_overlooked() {
        let output = "=== PER REQUEST METRICS ===\n\n4711 requests succeeded, 0 failed\n";
        assert_eq!(of_goose(output).unwrap(), 4711);
        let failed = output.replace("0 failed", "3 failed");
        assert!(of_goose(&failed).unwrap_err().to_string().contains("3 of its requests"));
        assert!(of_goose("panicked").is_err());
    }
}
