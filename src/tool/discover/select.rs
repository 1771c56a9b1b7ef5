//! Which packages are looked at: `-p`, `--workspace`, `--exclude`, and the folder one stands in.

use std::path::Path;

use cargo_metadata::{Metadata, Package};

use crate::model::event::Warning;
use crate::sys;
use crate::tool::cargo::CargoFlags;
use crate::tool::config::nearest;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectError {
    #[error(
        "no package `{spec}` in this workspace{}",
        nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
    )]
    NoSuchPackage { spec: String, nearest: Option<String> },
    #[error("--exclude can only be used together with --workspace")]
    ExcludeAlone,
}

#[derive(Debug)]
pub(in crate::tool) struct Selection<'a> {
    pub(in crate::tool) packages: Vec<&'a Package>,
    pub(in crate::tool) warnings: Vec<Warning>,
}

/// `manifest` is the one of the folder one stands in. That of a member other than the root selects this member; any
/// other selects all.
pub(in crate::tool) fn select<'a>(
    metadata: &'a Metadata,
    manifest: Option<&Path>,
    flags: &CargoFlags,
) -> Result<Selection<'a>, SelectError> {
    let mut packages = metadata.workspace_packages();
    packages.sort_by(|a, b| (&a.name, &a.manifest_path).cmp(&(&b.name, &b.manifest_path)));
    let mut selection = Selection { packages: Vec::new(), warnings: Vec::new() };
    if flags.workspace {
        for spec in flags.exclude.iter().filter(|spec| !packages.iter().any(|package| fits(spec, package))) {
            let message = format!("--exclude {spec} fits no package of this workspace");
            selection.warnings.push(Warning::new("excluded-package-not-found", message));
        }
        packages.retain(|package| !flags.exclude.iter().any(|spec| fits(spec, package)));
        selection.packages = packages;
        return Ok(selection);
    }
    if !flags.exclude.is_empty() {
        return Err(SelectError::ExcludeAlone);
    }
    if let Some(spec) = flags.packages.iter().find(|spec| !packages.iter().any(|package| fits(spec, package)))
    {
        let names = packages.iter().map(|package| package.name.as_str());
        return Err(SelectError::NoSuchPackage { spec: spec.clone(), nearest: nearest(spec, names) });
    }
    if !flags.packages.is_empty() {
        packages.retain(|package| flags.packages.iter().any(|spec| fits(spec, package)));
    } else if let Some(member) = manifest.and_then(|manifest| member_of(metadata, manifest)) {
        packages.retain(|package| package.id == member.id);
    }
    selection.packages = packages;
    Ok(selection)
}

/// The member whose manifest this is, unless it is the workspace's root.
pub(in crate::tool) fn member_of<'a>(metadata: &'a Metadata, manifest: &Path) -> Option<&'a Package> {
    let manifest = sys::fs::canonical(manifest);
    if manifest.parent() == Some(&sys::fs::canonical(metadata.workspace_root.as_std_path())) {
        return None;
    }
    metadata
        .workspace_packages()
        .into_iter()
        .find(|package| sys::fs::canonical(package.manifest_path.as_std_path()) == manifest)
}

/// Whether a package is what `spec` says: a name, a glob, `name@version`, or a package id.
fn fits(spec: &str, package: &Package) -> bool {
    if spec == package.id.repr {
        return true;
    }
    match spec.split_once('@') {
        Some((name, version)) => name == package.name.as_str() && version == package.version.to_string(),
        None => glob(spec.as_bytes(), package.name.as_bytes()),
    }
}

/// `*` stands for any characters, `?` for one.
pub(in crate::tool) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        (Some((b'?', pattern)), Some((_, text))) => glob(pattern, text),
        (Some((expected, pattern)), Some((found, text))) => expected == found && glob(pattern, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_read_as_cargo_reads_them() {
        for (pattern, text, want) in [
            ("blog", "blog", true),
            ("blog", "blog-x", false),
            ("blog*", "blog-x", true),
            ("*-loadtests", "blog-loadtests", true),
            ("b?og", "blog", true),
            ("b?g", "blog", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
        }
    }
}
