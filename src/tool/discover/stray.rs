//! Files that look like scenarios and are none: each gets a warning that says how to make it one.

use cargo_metadata::Package;

use super::{DiscoverError, LIBRARY_CRATE, LIBRARY_PACKAGE, SCENARIO_FOLDER, folder, library_name};
use crate::model::event::Warning;
use crate::sys;

/// Looks at the top-level files of the package's `loadtests/`.
pub(super) fn warnings(package: &Package) -> Result<Vec<Warning>, DiscoverError> {
    let scenarios = folder(package).join(SCENARIO_FOLDER);
    let library = library_name(package);
    let call = format!("{}::main(", library.as_deref().unwrap_or(LIBRARY_CRATE));
    let mut warnings = Vec::new();
    let files = sys::fs::files_in(&scenarios)
        .map_err(|source| DiscoverError::Read { path: scenarios.clone(), source })?;
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = sys::fs::read_text(&path)
            .map_err(|source| DiscoverError::Read { path: path.clone(), source })?
            .unwrap_or_default();
        if !text.contains(&call) {
            continue;
        }
        let is_target = package.targets.iter().any(|target| target.src_path.as_std_path() == path);
        let advice = if library.is_none() {
            format!(
                "add the dependency to {}: cargo add --dev --no-default-features {LIBRARY_PACKAGE}",
                package.name
            )
        } else if !is_target {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            format!(
                "add a [[bench]] with name = \"{name}\", path = \"{SCENARIO_FOLDER}/{name}.rs\" and harness = false to {}",
                package.manifest_path
            )
        } else {
            continue;
        };
        let message = format!("{} is not a scenario yet; {advice}", path.display());
        warnings.push(Warning::new("file-is-no-scenario", message));
    }
    Ok(warnings)
}
