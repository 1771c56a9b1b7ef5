//! Scenario binaries: built together, in a profile of the tool's own that rebuilds fast and runs optimized.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{BuildError, messages};
use crate::tool::cargo::{Cargo, CargoFlags};
use crate::tool::discover::ScenarioTarget;

const PROFILE: &str = "loadtest-scenario";

/// The load generator must be optimized, and a changed scenario must not wait for the user's fat LTO. What it depends on is
/// built once, and each crate in one piece: without LTO nothing is inlined from one piece into another, and a request
/// costs an eighth more. Panics unwind, because a scenario's panic is caught and counted.
const PROFILE_SETTINGS: [&str; 7] = [
    "inherits=\"release\"",
    "lto=\"off\"",
    "codegen-units=16",
    "package.\"*\".codegen-units=1",
    "incremental=true",
    "debug=\"line-tables-only\"",
    "panic=\"unwind\"",
];

/// What became of the scenarios that were to be built.
#[derive(Debug)]
pub(crate) struct ScenarioBuild {
    pub(crate) built: Vec<BuiltScenario>,
    /// Cargo has said why.
    pub(crate) failed: Vec<ScenarioTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltScenario {
    pub(crate) target: ScenarioTarget,
    pub(crate) executable: PathBuf,
}

/// Builds the targets with one cargo call. One that does not compile does not keep the others from being built.
/// Dropped before its end, it kills cargo.
pub(crate) async fn build_scenarios(
    cargo: &Cargo,
    flags: &CargoFlags,
    targets: &[ScenarioTarget],
) -> Result<ScenarioBuild, BuildError> {
    if targets.is_empty() {
        return Ok(ScenarioBuild { built: Vec::new(), failed: Vec::new() });
    }
    let mut command = cargo.command("build", flags);
    command.arg("--keep-going").args(["--profile", PROFILE]);
    for setting in PROFILE_SETTINGS {
        command.args(["--config".to_owned(), format!("profile.{PROFILE}.{setting}")]);
    }
    command.args(flags.build_arguments()).args(flags.feature_arguments());
    // Cargo builds the union of names in the union of packages; what is too much in it is not asked for below.
    for package in targets.iter().map(|target| &target.package_id).collect::<BTreeSet<_>>() {
        command.args(["-p", package]);
    }
    for (kind, name) in targets.iter().map(|target| (target.kind, &target.name)).collect::<BTreeSet<_>>() {
        command.args([&format!("--{}", kind.as_str()), name]);
    }
    let artifacts = messages::run(cargo.program(), command).await?;

    let mut build = ScenarioBuild { built: Vec::new(), failed: Vec::new() };
    for target in targets.iter().cloned() {
        let made = artifacts
            .iter()
            .find(|artifact| artifact.is(&target.package_id, target.kind.as_str(), &target.name));
        match made {
            Some(artifact) => {
                build.built.push(BuiltScenario { executable: artifact.executable.clone(), target });
            }
            None => build.failed.push(target),
        }
    }
    Ok(build)
}
