//! From `cargo metadata` to the scenario targets of a workspace.

pub(super) mod select;
mod stray;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, Target};
use serde::Deserialize;

use super::cargo::{Cargo, CargoFlags};
use super::config::nearest;
use crate::model::event::Warning;
pub(crate) use select::SelectError;

/// The package that scenario packages depend on.
pub(crate) const LIBRARY_PACKAGE: &str = env!("CARGO_PKG_NAME");
/// What code calls it unless it is renamed.
pub(crate) const LIBRARY_CRATE: &str = "loadtest";
/// The folder of a package that its scenarios live in.
pub(crate) const SCENARIO_FOLDER: &str = "loadtests";

/// A workspace, as far as load tests care.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where results go: cargo's target directory, or the one given by flag.
    pub(crate) target_directory: PathBuf,
    pub(crate) members: Vec<Member>,
    /// Of the packages selected, in the order of members, then of names.
    pub(crate) scenarios: Vec<ScenarioTarget>,
    pub(crate) warnings: Vec<Warning>,
}

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) bins: Vec<String>,
}

/// A target that is a scenario binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScenarioTarget {
    pub(crate) package: String,
    pub(crate) package_id: String,
    pub(crate) package_folder: PathBuf,
    pub(crate) kind: TargetKind,
    pub(crate) name: String,
    pub(crate) source: PathBuf,
}

/// The kinds of targets that can be scenario binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TargetKind {
    Bench,
    Bin,
    Example,
}

impl TargetKind {
    const ALL: [Self; 3] = [Self::Bench, Self::Bin, Self::Example];

    /// Cargo's word for it, in flags and messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Bin => "bin",
            Self::Example => "example",
        }
    }

    fn matches(self, target: &Target) -> bool {
        match self {
            Self::Bench => target.is_bench(),
            Self::Bin => target.is_bin(),
            Self::Example => target.is_example(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoverError {
    #[error("cannot run `{program} metadata`")]
    Start { program: String, source: io::Error },
    /// Cargo has said why.
    #[error("`cargo metadata` failed; is this folder in a cargo workspace?")]
    Metadata,
    #[error("cannot understand the output of `cargo metadata`")]
    Parse(#[source] cargo_metadata::Error),
    #[error("{}: [package.metadata.loadtest]: {message}", manifest.display())]
    PackageMetadata { manifest: PathBuf, message: String },
    #[error(
        "{}: [package.metadata.loadtest] names `{name}`, which is no bench, bin or example of the package{}",
        manifest.display(),
        nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
    )]
    NoSuchTarget { manifest: PathBuf, name: String, nearest: Option<String> },
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// `[package.metadata.loadtest]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageTable {
    #[serde(default)]
    targets: Vec<String>,
}

/// Asks cargo for the workspace and finds the scenario targets of the packages that the flags select.
pub(crate) async fn discover(cargo: &Cargo, flags: &CargoFlags) -> Result<Workspace, DiscoverError> {
    let metadata = read_metadata(cargo, flags).await?;
    let chosen = select::select(&metadata, cargo.manifest(flags).as_deref(), flags)?;
    let mut workspace = Workspace {
        root: metadata.workspace_root.clone().into(),
        target_directory: match &flags.target_dir {
            Some(folder) => cargo.folder().join(folder),
            None => metadata.target_directory.clone().into(),
        },
        members: metadata.workspace_packages().into_iter().map(member).collect(),
        scenarios: Vec::new(),
        warnings: chosen.warnings,
    };
    for package in chosen.packages {
        workspace.scenarios.extend(scenario_targets(package)?);
        workspace.warnings.extend(stray::warnings(package)?);
    }
    Ok(workspace)
}

pub(super) async fn read_metadata(cargo: &Cargo, flags: &CargoFlags) -> Result<Metadata, DiscoverError> {
    let mut command = cargo.command("metadata", flags);
    command.args(["--no-deps", "--format-version", "1"]).args(flags.feature_arguments());
    let start = |source| DiscoverError::Start { program: cargo.program().to_owned(), source };
    // Not `output()`, which would keep what cargo says to the user.
    let output = command.spawn().map_err(start)?.wait_with_output().await.map_err(start)?;
    if !output.status.success() {
        return Err(DiscoverError::Metadata);
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout)).map_err(DiscoverError::Parse)
}

fn member(package: &Package) -> Member {
    Member {
        id: package.id.repr.clone(),
        name: package.name.to_string(),
        folder: folder(package).to_owned(),
        bins: package.targets.iter().filter(|target| target.is_bin()).map(|it| it.name.clone()).collect(),
    }
}

pub(super) fn folder(package: &Package) -> &Path {
    package.manifest_path.parent().map_or(Path::new(""), |folder| folder.as_std_path())
}

/// The name by which the package's own code calls the library; `None` if it does not depend on it.
pub(super) fn library_name(package: &Package) -> Option<String> {
    let dependency = package.dependencies.iter().find(|dependency| {
        dependency.name == LIBRARY_PACKAGE
            && matches!(dependency.kind, DependencyKind::Normal | DependencyKind::Development)
    })?;
    Some(dependency.rename.as_deref().map_or(LIBRARY_CRATE.to_owned(), |name| name.replace('-', "_")))
}

fn scenario_targets(package: &Package) -> Result<Vec<ScenarioTarget>, DiscoverError> {
    let named = named_targets(package)?;
    if library_name(package).is_none() {
        return Ok(Vec::new());
    }
    let in_folder =
        package.targets.iter().filter(|target| target.is_bench() && in_scenario_folder(package, target));
    let mut found: Vec<ScenarioTarget> = in_folder
        .map(|target| (TargetKind::Bench, target))
        .chain(named)
        .map(|(kind, target)| ScenarioTarget {
            package: package.name.to_string(),
            package_id: package.id.repr.clone(),
            package_folder: folder(package).to_owned(),
            kind,
            name: target.name.clone(),
            source: target.src_path.clone().into(),
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    found.dedup();
    Ok(found)
}

/// Whether a folder between the package's and the source's is called `loadtests`.
fn in_scenario_folder(package: &Package, target: &Target) -> bool {
    target
        .src_path
        .as_std_path()
        .strip_prefix(folder(package))
        .ok()
        .and_then(Path::parent)
        .is_some_and(|folders| folders.iter().any(|name| name == SCENARIO_FOLDER))
}

/// The targets that `[package.metadata.loadtest]` names. Where kinds share a name, a bench comes first, then a bin.
fn named_targets(package: &Package) -> Result<Vec<(TargetKind, &Target)>, DiscoverError> {
    let manifest = || package.manifest_path.clone().into();
    let table = match package.metadata.get("loadtest") {
        None => PackageTable::default(),
        Some(table) => PackageTable::deserialize(table).map_err(|error| DiscoverError::PackageMetadata {
            manifest: manifest(),
            message: error.to_string(),
        })?,
    };
    let candidates = |kind: TargetKind| package.targets.iter().filter(move |target| kind.matches(target));
    table
        .targets
        .into_iter()
        .map(|name| {
            TargetKind::ALL
                .into_iter()
                .find_map(|kind| Some((kind, candidates(kind).find(|target| target.name == name)?)))
                .ok_or_else(|| DiscoverError::NoSuchTarget {
                    manifest: manifest(),
                    nearest: nearest(
                        &name,
                        TargetKind::ALL.into_iter().flat_map(candidates).map(|target| target.name.as_str()),
                    ),
                    name,
                })
        })
        .collect()
}
