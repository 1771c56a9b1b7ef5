//! `cargo xtask demo`: the blog example under load at bcrypt cost 12, then 10, and what the cost made of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::claims;
use crate::process;
use crate::summary::{Runs, Summary};

/// The tool's exit code for "a threshold failed".
const THRESHOLD_FAILED: i32 = 99;

/// The profile of the scenario, shortened to 40 s.
const STAGES: &[&str] = &["10s:20", "20s:20", "10s:0"];

pub(crate) fn run(root: &Path) -> Result<()> {
    let blog = root.join("examples").join("blog");
    let tool = process::build(
        root,
        "cargo-loadtest",
        &["--release", "--package", "cargo-loadtest", "--bin", "cargo-loadtest"],
    )?;
    let mut runs = Runs::in_target(&process::target_directory(&blog)?);

    println!("\n== bcrypt cost 12\n");
    let code = load(&tool, &blog, &[])?;
    match code {
        0 => println!("\nAll thresholds passed at cost 12: this machine is faster than they expect."),
        THRESHOLD_FAILED => {
            println!("\nA threshold failed, as it should: cost 12 is too much for these thresholds.");
        }
        _ => bail!("the run at cost 12 ended with exit code {code}"),
    }
    let before = Summary::read(&runs.added()?)?;

    println!("\n== bcrypt cost 10\n");
    let code = load(&tool, &blog, &["--profile", "cost10"])?;
    match code {
        0 => {}
        THRESHOLD_FAILED => {
            println!("\nA threshold failed here, too: this machine is slow, or busy with other things.");
        }
        _ => bail!("the run at cost 10 ended with exit code {code}"),
    }
    let after = Summary::read(&runs.added()?)?;

    println!("\n== the difference\n");
    print!("{}", difference(&before, &after));

    println!("\n== what the demo is to show\n");
    let claims = claims::of(&before, &after);
    for claim in &claims {
        println!("  {} {}: {}", if claim.holds { "✓" } else { "✗" }, claim.what, claim.seen);
    }
    ensure!(claims.iter().all(|claim| claim.holds), "not all of it was shown");
    Ok(())
}

/// Runs the auth scenario, with this process's streams, to an exit code.
fn load(tool: &PathBuf, blog: &Path, more: &[&str]) -> Result<i32> {
    let mut command = process::program(tool, blog);
    command.args(["loadtest", "run", "auth"]);
    for stage in STAGES {
        command.args(["--stage", stage]);
    }
    command.args(more);
    println!("$ {}\n", process::shown(&command));
    match command.status()?.code() {
        Some(code) => Ok(code),
        None => bail!("`{}` was ended by a signal", process::shown(&command)),
    }
}

fn difference(before: &Summary, after: &Summary) -> String {
    let mut rows = Vec::new();
    for step in &before.steps {
        let Some(other) = after.steps.iter().find(|other| other.step == step.step) else { continue };
        rows.push((format!("{}  p50 (ms)", step.step), step.latency_ms.p50, other.latency_ms.p50));
        rows.push((format!("{}  p95 (ms)", step.step), step.latency_ms.p95, other.latency_ms.p95));
        let on_path = (bcrypt_ms(before, &step.step), bcrypt_ms(after, &step.step));
        if on_path != (None, None) {
            rows.push((format!("{}  bcrypt, on average (ms)", step.step), on_path.0, on_path.1));
        }
    }
    rows.push((
        "requests/s".to_owned(),
        Some(before.totals.requests_per_s),
        Some(after.totals.requests_per_s),
    ));

    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    let mut text = format!("{:<width$}  {:>9}  {:>9}  {:>7}\n", "", "cost 12", "cost 10", "ratio");
    for (name, before, after) in rows {
        let ratio = before.zip(after).filter(|(_, after)| *after > 0.0).map(|(before, after)| before / after);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{name:<width$}  {:>9}  {:>9}  {:>7}",
            figure(before, 1),
            figure(after, 1),
            figure(ratio, 2)
        );
    }
    text
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// What bcrypt put on the critical path of a step, over all its traced requests.
fn bcrypt_ms(summary: &Summary, step: &str) -> Option<f64> {
    let all = summary.attribution.iter().find(|part| part.step == step && part.band == "all")?;
    let of_bcrypt = all.operations.iter().filter(|operation| operation.operation.starts_with("bcrypt."));
    let figures: Vec<_> = of_bcrypt.map(|operation| operation.critical_ms).collect();
    (!figures.is_empty()).then(|| figures.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::{Summary, difference};

    fn summary(p50: f64, p95: f64, rate: f64, bcrypt: f64) -> Summary {
        let text = serde_json::json!({
            "schema": "loadtest.summary/1",
            "totals": {"requests": 1200, "errors": 0, "requests_per_s": rate},
            "steps": [
                {"step": "POST /auth/login", "latency_ms": {"p50": p50, "p95": p95}},
                {"step": "POST /auth/logout", "latency_ms": {"p50": 2.0, "p95": null}},
            ],
            "attribution": [
                {"step": "POST /auth/login", "band": "p95", "operations": [
                    {"operation": "bcrypt.verify", "critical_ms": 9999.0}]},
                {"step": "POST /auth/login", "band": "all", "operations": [
                    {"operation": "bcrypt.verify", "critical_ms": bcrypt},
                    {"operation": "POST /auth/login", "critical_ms": 3.0}]},
            ],
        });
        Summary::parse(&text.to_string()).unwrap()
    }

    #[test]
    fn the_difference_puts_both_runs_side_by_side() {
        let text = difference(&summary(600.0, 1200.0, 15.04, 560.0), &summary(150.0, 300.0, 41.0, 140.0));
        let expected = "
                                             cost 12    cost 10    ratio
POST /auth/login  p50 (ms)                     600.0      150.0     4.00
POST /auth/login  p95 (ms)                    1200.0      300.0     4.00
POST /auth/login  bcrypt, on average (ms)      560.0      140.0     4.00
POST /auth/logout  p50 (ms)                      2.0        2.0     1.00
POST /auth/logout  p95 (ms)                        -          -        -
requests/s                                      15.0       41.0     0.37
";
        assert_eq!(format!("\n{text}"), expected);
    }
}
