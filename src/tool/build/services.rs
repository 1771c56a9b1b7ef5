//! Binaries of services under test: built apart from scenarios, as they are released, and started from copies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{BuildError, messages};
use crate::sys;
use crate::tool::cargo::{Cargo, CargoFlags};
use crate::tool::config::{Program, Service, nearest};
use crate::tool::discover::{Member, Workspace};

const PROFILE: &str = "release";

/// A service's binary, copied into the run folder, so that a later build cannot change what is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltService {
    pub(crate) service: String,
    pub(crate) executable: PathBuf,
}

#[derive(Debug)]
struct Wanted<'a> {
    service: &'a str,
    package: &'a Member,
    bin: &'a str,
    features: &'a [String],
}

/// Builds every service that is a binary of the workspace with one cargo call, and copies each into
/// `run_folder/bin/`. Services that are commands have nothing to build and are not in the answer.
pub(crate) async fn build_services(
    cargo: &Cargo,
    flags: &CargoFlags,
    workspace: &Workspace,
    services: &[Service],
    run_folder: &Path,
) -> Result<Vec<BuiltService>, BuildError> {
    let wanted = all_wanted(workspace, services)?;
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = cargo.command("build", flags);
    command.args(["--profile", flags.cargo_profile.as_deref().unwrap_or(PROFILE)]);
    command.args(flags.build_arguments());
    for package in wanted.iter().map(|it| &it.package.id).collect::<BTreeSet<_>>() {
        command.args(["-p", package]);
    }
    for bin in wanted.iter().map(|it| it.bin).collect::<BTreeSet<_>>() {
        command.args(["--bin", bin]);
    }
    for feature in wanted.iter().flat_map(|it| it.features.iter().map(|name| (&it.package.name, name))) {
        command.args(["--features".to_owned(), format!("{}/{}", feature.0, feature.1)]);
    }
    let artifacts = messages::run(cargo.program(), command).await?;

    let mut built = Vec::new();
    let mut failed = Vec::new();
    for it in wanted {
        match artifacts.iter().find(|artifact| artifact.is(&it.package.id, "bin", it.bin)) {
            Some(artifact) => built.push(copy(it.service, &artifact.executable, run_folder)?),
            None => failed.push(it.service.to_owned()),
        }
    }
    if failed.is_empty() { Ok(built) } else { Err(BuildError::ServicesFailed { services: failed }) }
}

/// Whether each service that is a binary is one of the workspace.
pub(crate) fn check_services(workspace: &Workspace, services: &[Service]) -> Result<(), BuildError> {
    all_wanted(workspace, services).map(drop)
}

fn all_wanted<'a>(workspace: &'a Workspace, services: &'a [Service]) -> Result<Vec<Wanted<'a>>, BuildError> {
    services.iter().filter_map(|service| wanted(&workspace.members, service).transpose()).collect()
}

fn copy(service: &str, from: &Path, run_folder: &Path) -> Result<BuiltService, BuildError> {
    let to = run_folder.join("bin").join(format!("{service}{}", std::env::consts::EXE_SUFFIX));
    sys::fs::copy_executable(from, &to).map_err(|source| BuildError::Copy {
        from: from.to_owned(),
        to: to.clone(),
        source,
    })?;
    Ok(BuiltService { service: service.to_owned(), executable: to })
}

/// What is to be built for a service; `None` for a command.
fn wanted<'a>(members: &'a [Member], service: &'a Service) -> Result<Option<Wanted<'a>>, BuildError> {
    let Program::Bin { bin, package, features } = &service.program else { return Ok(None) };
    let (name, bin) = (service.name.as_str(), bin.value.as_str());
    let named: Vec<&Member> = match package {
        Some(package) => members.iter().filter(|member| member.name == package.value).collect(),
        None => members.iter().collect(),
    };
    if let (Some(package), true) = (package, named.is_empty()) {
        return Err(BuildError::NoSuchPackage { service: name.to_owned(), package: package.value.clone() });
    }
    let having: Vec<&Member> =
        named.iter().copied().filter(|member| member.bins.iter().any(|known| known == bin)).collect();
    match having[..] {
        [package] => {
            let features = features.as_ref().map_or(&[][..], |features| &features.value);
            Ok(Some(Wanted { service: name, package, bin, features }))
        }
        [] => Err(BuildError::NoSuchBin {
            service: name.to_owned(),
            bin: bin.to_owned(),
            nearest: nearest(bin, named.iter().flat_map(|member| &member.bins).map(String::as_str)),
        }),
        _ => Err(BuildError::AmbiguousBin {
            service: name.to_owned(),
            bin: bin.to_owned(),
            packages: having.iter().map(|member| member.name.clone()).collect(),
        }),
    }
}
