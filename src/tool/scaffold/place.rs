//! Which package a new scenario goes into, and how that package comes to depend on the library.

use std::path::PathBuf;

use cargo_metadata::{Metadata, Package};

use super::{LibrarySource, ScaffoldError, manifest, read};
use crate::model::event::Warning;
use crate::tool::cargo::{Cargo, CargoFlags};
use crate::tool::discover::{LIBRARY_CRATE, LIBRARY_PACKAGE, folder, library_name, select};

/// The package that is made in a virtual workspace, and its folder.
pub(super) const NEW_PACKAGE: &str = "loadtests";
/// What the library is called in a package whose own library has its name.
pub(super) const RENAMED: &str = "cargo_loadtest";

#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) package: String,
    pub(super) folder: PathBuf,
    pub(super) dependency: Dependency,
    pub(super) warnings: Vec<Warning>,
}

/// How the package depends on the library, and what its code calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dependency {
    /// It does already.
    There { crate_name: String },
    /// Through this key of `[workspace.dependencies]`.
    Inherited { key: String, crate_name: String },
    /// By an entry of its own.
    Own { crate_name: &'static str },
}

impl Dependency {
    pub(super) fn crate_name(&self) -> &str {
        match self {
            Self::There { crate_name } | Self::Inherited { crate_name, .. } => crate_name,
            Self::Own { crate_name } => crate_name,
        }
    }
}

pub(super) fn choose(
    cargo: &Cargo,
    flags: &CargoFlags,
    metadata: &Metadata,
    library: &LibrarySource,
) -> Result<Place, ScaffoldError> {
    let root: PathBuf = metadata.workspace_root.clone().into();
    let package = choose_package(cargo, flags, metadata)?;
    let mut place = match package {
        Some(package) => Place {
            package: package.name.to_string(),
            folder: folder(package).to_owned(),
            root,
            dependency: own(package),
            warnings: Vec::new(),
        },
        None => Place {
            package: NEW_PACKAGE.to_owned(),
            folder: new_folder(&root, metadata)?,
            root,
            dependency: Dependency::Own { crate_name: LIBRARY_CRATE },
            warnings: Vec::new(),
        },
    };
    match (&place.dependency, library) {
        (Dependency::Own { .. }, LibrarySource::Usual) => inherit(&mut place, package)?,
        (Dependency::There { .. }, LibrarySource::Path(_) | LibrarySource::Git(_)) => {
            let message = format!(
                "{} depends on {LIBRARY_PACKAGE} already, and keeps that dependency: --path and --git are for packages without one",
                place.package
            );
            place.warnings.push(Warning::new("dependency-kept", message));
        }
        _ => {}
    }
    Ok(place)
}

/// `None`: a package is to be made.
fn choose_package<'a>(
    cargo: &Cargo,
    flags: &CargoFlags,
    metadata: &'a Metadata,
) -> Result<Option<&'a Package>, ScaffoldError> {
    if !flags.packages.is_empty() {
        let chosen = select::select(metadata, None, flags)?.packages;
        let [package] = chosen[..] else { return Err(ScaffoldError::SeveralPackages) };
        return Ok(Some(package));
    }
    let member = cargo.manifest(flags).and_then(|manifest| select::member_of(metadata, &manifest));
    let in_new_folder = |package: &&Package| folder(package) == metadata.workspace_root.join(NEW_PACKAGE);
    Ok(member
        .or_else(|| metadata.root_package())
        .or_else(|| metadata.workspace_packages().into_iter().find(in_new_folder)))
}

/// The folder of the package to be made, if nothing is in its way.
fn new_folder(root: &std::path::Path, metadata: &Metadata) -> Result<PathBuf, ScaffoldError> {
    let folder = root.join(NEW_PACKAGE);
    let taken = metadata.workspace_packages().iter().any(|package| package.name.as_str() == NEW_PACKAGE);
    if taken || read(&folder.join("Cargo.toml"))?.is_some() {
        return Err(ScaffoldError::NoPlace { root: root.to_owned(), name: NEW_PACKAGE });
    }
    Ok(folder)
}

fn own(package: &Package) -> Dependency {
    if let Some(crate_name) = library_name(package) {
        return Dependency::There { crate_name };
    }
    Dependency::Own { crate_name: if has_library(package, LIBRARY_CRATE) { RENAMED } else { LIBRARY_CRATE } }
}

fn has_library(package: &Package, name: &str) -> bool {
    package.targets.iter().any(|target| {
        target.name.replace('-', "_") == name
            && (target.is_lib() || target.is_rlib() || target.is_cdylib() || target.is_dylib())
    })
}

/// Takes the workspace's entry for the library, if there is one whose name is free in the package.
fn inherit(place: &mut Place, package: Option<&Package>) -> Result<(), ScaffoldError> {
    let path = place.root.join("Cargo.toml");
    let text = read(&path)?.unwrap_or_default();
    let entry = manifest::workspace_dependency(&text, LIBRARY_PACKAGE)
        .map_err(|message| ScaffoldError::Manifest { path: path.clone(), message })?;
    let Some(entry) = entry else { return Ok(()) };
    let crate_name =
        if entry.key == LIBRARY_PACKAGE { LIBRARY_CRATE.to_owned() } else { entry.key.replace('-', "_") };
    if package.is_some_and(|package| has_library(package, &crate_name)) {
        return Ok(());
    }
    if entry.default_features {
        let message = format!(
            "{}: set `default-features = false` for {} in [workspace.dependencies]; scenarios need no more, and build faster",
            path.display(),
            entry.key
        );
        place.warnings.push(Warning::new("default-features-inherited", message));
    }
    place.dependency = Dependency::Inherited { key: entry.key, crate_name };
    Ok(())
}
