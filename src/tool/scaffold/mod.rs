//! `cargo loadtest new`: a scenario's file, its target, and the dependency on this library.

mod manifest;
mod place;
mod template;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::cargo::{Cargo, CargoFlags};
use super::discover::{DiscoverError, LIBRARY_PACKAGE, SCENARIO_FOLDER, SelectError, read_metadata};
use crate::model::event::Warning;
use crate::sys;
use place::{Dependency, Place};

/// Where the library comes from, when it is not a dependency yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LibrarySource {
    /// What the workspace says in `[workspace.dependencies]`, else the release that this tool is of.
    Usual,
    /// A checkout.
    Path(PathBuf),
    Git(String),
}

/// What was made.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) package: String,
    pub(crate) manifest: PathBuf,
    pub(crate) scenario: PathBuf,
    /// The package is new too.
    pub(crate) package_is_new: bool,
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScaffoldError {
    #[error("`{0}` is no name for a scenario; use letters, digits, - and _")]
    Name(String),
    #[error("`{0}` exists already; choose another name")]
    Exists(String),
    #[error("-p must name one package to put the scenario into")]
    SeveralPackages,
    #[error("{} has no place for a package called `{name}`; name a package with -p", root.display())]
    NoPlace { root: PathBuf, name: &'static str },
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("cannot edit {}: {message}", path.display())]
    Manifest { path: PathBuf, message: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot run `{program} add`")]
    Start { program: String, source: io::Error },
    /// Cargo has said why.
    #[error("`cargo add` failed; nothing was changed")]
    Add,
}

/// Makes the scenario `name` in the package that flags and folder select; in the root of a virtual workspace, in a
/// package `loadtests`, which is made if need be. On an error everything is as it was.
pub(crate) async fn new(
    cargo: &Cargo,
    flags: &CargoFlags,
    name: &str,
    library: &LibrarySource,
) -> Result<Created, ScaffoldError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(ScaffoldError::Name(name.to_owned()));
    }
    let metadata = read_metadata(cargo, flags).await?;
    let place = place::choose(cargo, flags, &metadata, library)?;
    let mut changes = Changes::default();
    let created = match write(&mut changes, &place, name) {
        Ok(created) => add_dependency(cargo, flags, &place, library).await.map(|()| created),
        Err(error) => Err(error),
    };
    if created.is_err() {
        changes.undo();
    }
    created
}

fn write(changes: &mut Changes, place: &Place, name: &str) -> Result<Created, ScaffoldError> {
    let scenario = place.folder.join(SCENARIO_FOLDER).join(format!("{name}.rs"));
    if read(&scenario)?.is_some() {
        return Err(ScaffoldError::Exists(scenario.display().to_string()));
    }
    let manifest = place.folder.join("Cargo.toml");
    let edit = |message| ScaffoldError::Manifest { path: manifest.clone(), message };
    let package_is_new = read(&manifest)?.is_none();
    if package_is_new {
        let root = place.root.join("Cargo.toml");
        let text = read(&root)?.unwrap_or_default();
        let with_member = manifest::with_member(&text, place::NEW_PACKAGE)
            .map_err(|message| ScaffoldError::Manifest { path: root.clone(), message })?;
        if with_member != text {
            changes.write(&root, &with_member)?;
        }
    }
    let text = read(&manifest)?.unwrap_or_else(|| template::manifest(place::NEW_PACKAGE));
    if manifest::has_bench(&text, name).map_err(edit)? {
        return Err(ScaffoldError::Exists(format!("[[bench]] {name} in {}", manifest.display())));
    }
    changes.write(&manifest, &manifest::with_bench(&text, name).map_err(edit)?)?;
    changes.write(&scenario, &template::scenario(name, place.dependency.crate_name()))?;
    Ok(Created {
        package: place.package.clone(),
        manifest: manifest.clone(),
        scenario,
        package_is_new,
        warnings: place.warnings.clone(),
    })
}

async fn add_dependency(
    cargo: &Cargo,
    flags: &CargoFlags,
    place: &Place,
    library: &LibrarySource,
) -> Result<(), ScaffoldError> {
    let mut arguments: Vec<OsString> = Vec::new();
    match &place.dependency {
        Dependency::There { .. } => return Ok(()),
        Dependency::Inherited { key, .. } => arguments.push(key.into()),
        Dependency::Own { crate_name } => {
            arguments.push("--no-default-features".into());
            match library {
                LibrarySource::Usual => {
                    arguments.push(format!("{LIBRARY_PACKAGE}@={}", env!("CARGO_PKG_VERSION")).into());
                }
                LibrarySource::Path(path) => {
                    arguments.extend([LIBRARY_PACKAGE.into(), "--path".into(), path.into()]);
                }
                LibrarySource::Git(url) => {
                    arguments.extend([LIBRARY_PACKAGE.into(), "--git".into(), url.into()]);
                }
            }
            if *crate_name == place::RENAMED {
                arguments.extend(["--rename".into(), place::RENAMED.into()]);
            }
        }
    }
    let manifest_path = Some(place.folder.join("Cargo.toml"));
    let mut command = cargo.command("add", &CargoFlags { manifest_path, ..flags.clone() });
    command.arg("--dev").args(arguments).stdout(Stdio::null());
    let status = command
        .status()
        .await
        .map_err(|source| ScaffoldError::Start { program: cargo.program().to_owned(), source })?;
    if status.success() { Ok(()) } else { Err(ScaffoldError::Add) }
}

fn read(path: &Path) -> Result<Option<String>, ScaffoldError> {
    sys::fs::read_text(path).map_err(|source| ScaffoldError::Read { path: path.to_owned(), source })
}

/// Files that were written, with what they held before.
#[derive(Debug, Default)]
struct Changes(Vec<(PathBuf, Option<String>)>);

impl Changes {
    fn write(&mut self, path: &Path, text: &str) -> Result<(), ScaffoldError> {
        let before = read(path)?;
        let failed = |source| ScaffoldError::Write { path: path.to_owned(), source };
        sys::fs::write_source(path, text).map_err(failed)?;
        self.0.push((path.to_owned(), before));
        Ok(())
    }

    /// As well as it can be done: the error that led here is the one to tell.
    fn undo(self) {
        for (path, before) in self.0.into_iter().rev() {
            let _ = match before {
                Some(text) => sys::fs::write_source(&path, &text),
                None => sys::fs::remove_file(&path),
            };
        }
    }
}
