//! Rules about dependencies: what a scenario's build must not need, how many crates it may, and that there is one
//! OpenTelemetry.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Spanned;

use super::Finding;
use super::tree::{File, Tree};
use crate::process;

const PACKAGE: &str = "cargo-loadtest";

/// These need `CMake`, and an assembler, on every machine that compiles a scenario.
const FORBIDDEN: &[&str] = &["aws-lc-rs", "aws-lc-sys", "cmake", "native-tls", "openssl-sys"];

/// Packages, name and version, that a scenario compiles for this library on Linux, procedural macros included. 138 when
/// this was set: each more is paid by every user at every clean build, so raising it is a decision.
const MAX_RUNTIME_PACKAGES: usize = 150;

/// The count is the same on every machine.
const COUNTED_TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug, Deserialize)]
struct Lockfile {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: Spanned<String>,
    version: String,
}

pub(super) fn the_runtime_needs_no_foreign_toolchain(tree: &Tree) -> Vec<Finding> {
    let packages = match runtime_packages(tree, &["--target", "all", "--edges", "normal,build"]) {
        Ok(packages) => packages,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    for (name, version) in &packages {
        if FORBIDDEN.contains(&name.as_str()) {
            let message = format!(
                "`{name}` {version} is in the runtime's tree: `cargo tree --no-default-features -i {name}`"
            );
            findings.push(Finding::new("Cargo.lock", locked_at(tree.file("Cargo.lock"), name), message));
        }
    }
    findings
}

pub(super) fn the_runtime_stays_light(tree: &Tree) -> Vec<Finding> {
    light(tree, MAX_RUNTIME_PACKAGES)
}

fn light(tree: &Tree, most: usize) -> Vec<Finding> {
    let packages = match runtime_packages(tree, &["--target", COUNTED_TARGET, "--edges", "normal"]) {
        Ok(packages) => packages,
        Err(finding) => return vec![finding],
    };
    // The library itself is no dependency.
    let count = packages.iter().filter(|(name, _)| name != PACKAGE).count();
    if count <= most {
        return Vec::new();
    }
    let manifest = tree.file("Cargo.toml");
    let line = manifest.and_then(|file| file.lines().find(|(_, line)| line.trim() == "[dependencies]"));
    let message = format!("a scenario compiles {count} packages for this library; the budget is {most}");
    vec![Finding::new("Cargo.toml", line.map_or(1, |(number, _)| number), message)]
}

pub(super) fn there_is_one_opentelemetry(tree: &Tree) -> Vec<Finding> {
    let mut locks: Vec<_> = tree.files().iter().filter(|file| file.path.starts_with("examples/")).collect();
    locks.retain(|file| file.path.matches('/').count() == 2 && file.path.ends_with("/Cargo.lock"));
    let mut findings = Vec::new();
    if locks.is_empty() {
        findings.push(Finding::new("examples", 1, "no example has a lockfile"));
    }
    match tree.file("Cargo.lock") {
        Some(lock) => locks.push(lock),
        None => findings.push(Finding::new("Cargo.lock", 1, "there is no lockfile")),
    }
    for file in locks {
        match toml::from_str::<Lockfile>(&file.text) {
            Ok(lock) => findings.extend(other_opentelemetries(file, &lock)),
            Err(error) => {
                findings.push(Finding::new(&file.path, 1, format!("does not parse: {}", error.message())));
            }
        }
    }
    findings
}

/// Types of two versions do not fit together, and each keeps its own global provider: spans would be lost in silence.
fn other_opentelemetries(file: &File, lock: &Lockfile) -> Vec<Finding> {
    let found: Vec<_> =
        lock.package.iter().filter(|package| package.name.get_ref() == "opentelemetry").collect();
    let Some((first, others)) = found.split_first() else {
        return vec![Finding::new(&file.path, 1, "`opentelemetry` is not locked here")];
    };
    let second = |other: &&Locked| {
        let message =
            format!("`opentelemetry` {} beside {}; there must be one version", other.version, first.version);
        Finding::new(&file.path, line_of(&file.text, other.name.span().start), message)
    };
    others.iter().map(second).collect()
}

fn locked_at(lock: Option<&File>, name: &str) -> usize {
    let Some(file) = lock else { return 1 };
    let parsed = toml::from_str::<Lockfile>(&file.text).ok();
    let package =
        parsed.and_then(|lock| lock.package.into_iter().find(|package| package.name.get_ref() == name));
    package.map_or(1, |package| line_of(&file.text, package.name.span().start))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The packages that a scenario compiles for this library, by cargo's own resolution.
fn runtime_packages(tree: &Tree, selection: &[&str]) -> Result<BTreeSet<(String, String)>, Finding> {
    let mut command = process::cargo(tree.root());
    command.args(["tree", "--quiet", "--package", PACKAGE, "--no-default-features", "--no-dedupe"]);
    command.args(["--prefix", "none", "--format", "{p}"]).args(selection);
    command.env("CARGO_TERM_COLOR", "never");
    let listing = process::output(&mut command).map_err(|error| {
        Finding::new("Cargo.toml", 1, format!("could not list the dependencies: {error:#}"))
    })?;
    let package = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned()))
    };
    Ok(listing.lines().filter_map(package).collect())
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::{
        light, the_runtime_needs_no_foreign_toolchain as no_foreign, there_is_one_opentelemetry as one,
    };

    /// Adds a package of this name to the sample, and the library's dependency on it.
    fn with_dependency(table: &str, name: &str, optional: bool) -> Sample {
        let sample = Sample::good();
        let version = "0.9.0";
        sample.write(
            &format!("{name}/Cargo.toml"),
            &format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n"),
        );
        sample.write(&format!("{name}/src/lib.rs"), "//! Stands for the crate of this name.\n");
        let old = "[dependencies]\n";
        let line = format!("{name} = {{ path = \"{name}\", optional = {optional} }}\n");
        let new = if table == "dependencies" {
            format!("{old}{line}")
        } else {
            format!("[{table}]\n{line}\n{old}")
        };
        sample.replace("Cargo.toml", old, &new);
        if optional {
            sample.replace("Cargo.toml", "cli = []", &format!("cli = [\"dep:{name}\"]\ndefault = [\"cli\"]"));
        }
        let locked = format!("\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        sample.replace("Cargo.lock", "version = \"0.33.1\"\n", &format!("version = \"0.33.1\"\n{locked}"));
        sample
    }

    #[test]
    fn a_foreign_toolchain_in_the_runtime_is_found() {
        for (table, name) in [
            ("dependencies", "aws-lc-sys"),
            ("build-dependencies", "cmake"),
            ("target.'cfg(windows)'.dependencies", "openssl-sys"),
        ] {
            with_dependency(table, name, false).assert_lines(no_foreign, "Cargo.lock", &[15]);
        }
    }

    #[test]
    fn what_only_the_tool_or_the_tests_need_is_not_found() {
        with_dependency("dependencies", "cmake", true).assert_lines(no_foreign, "Cargo.lock", &[]);
        with_dependency("dev-dependencies", "cmake", false).assert_lines(no_foreign, "Cargo.lock", &[]);
    }

    #[test]
    fn a_runtime_over_its_budget_is_found() {
        let sample = with_dependency("dependencies", "left-pad", false);
        sample.assert_lines(|tree| light(tree, 2), "Cargo.toml", &[]);
        sample.assert_lines(|tree| light(tree, 1), "Cargo.toml", &[11]);
        with_dependency("dependencies", "left-pad", true).assert_lines(
            |tree| light(tree, 1),
            "Cargo.toml",
            &[],
        );
    }

    #[test]
    fn a_tree_that_cargo_cannot_read_is_found() {
        let sample = Sample::good();
        sample.replace("Cargo.toml", "name = \"cargo-loadtest\"\n", "");
        sample.assert_lines(no_foreign, "Cargo.toml", &[1]);
        sample.assert_lines(|tree| light(tree, 1), "Cargo.toml", &[1]);
    }

    #[test]
    fn a_second_opentelemetry_is_found() {
        for lock in ["Cargo.lock", "examples/blog/Cargo.lock"] {
            let sample = Sample::good();
            let second =
                "version = \"0.33.1\"\n\n[[package]]\nname = \"opentelemetry\"\nversion = \"0.31.0\"\n";
            sample.replace(lock, "version = \"0.33.1\"\n", second);
            sample.assert_lines(one, lock, &[15]);
        }
    }

    #[test]
    fn a_lockfile_that_is_missing_or_broken_is_found() {
        let sample = Sample::good();
        sample.write("Cargo.lock", "[[package]\n");
        sample.assert_lines(one, "Cargo.lock", &[1]);
        sample.remove("Cargo.lock");
        sample.assert_lines(one, "Cargo.lock", &[1]);
        let sample = Sample::good();
        sample.write("examples/blog/Cargo.lock", "version = 4\n");
        sample.assert_lines(one, "examples/blog/Cargo.lock", &[1]);
        sample.remove("examples/blog/Cargo.lock");
        sample.assert_lines(one, "examples", &[1]);
    }
}
