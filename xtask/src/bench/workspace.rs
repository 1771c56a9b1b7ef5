//! The workspace of the benchmark's scenario, as a user would have it, and the program of the Goose attack.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process;

/// The scenario of closed loads, and the name of its target: what the process that runs it is called.
pub(super) const SCENARIO: &str = "getroot";

/// A workspace with one scenario that depends on this library by its path.
pub(super) fn write(root: &Path, folder: &Path) -> Result<()> {
    let library = toml::Value::String(root.display().to_string());
    let manifest = format!(
        r#"[workspace]

[package]
name = "bench-workspace"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "lib.rs"

[dev-dependencies]
cargo-loadtest = {{ path = {library}, default-features = false }}

[[bench]]
name = "{SCENARIO}"
path = "loadtests/{SCENARIO}.rs"
harness = false
"#
    );
    let scenario = format!(
        r#"//! One request an iteration, and nothing else.

use loadtest::prelude::*;

async fn get_root(vu: &Vu) -> Result {{
    vu.get("/").send().await?.expect_status(200)?;
    Ok(())
}}

fn main() -> loadtest::ExitCode {{
    loadtest::main([scenario("{SCENARIO}", get_root)])
}}
"#
    );
    let lockfile = root.join("Cargo.lock");
    let locked =
        fs::read_to_string(&lockfile).with_context(|| format!("could not read {}", lockfile.display()))?;
    // Left alone where nothing changed, so that cargo does not build it again.
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let changed = fs::read_to_string(&path).map_or(true, |found| found != text);
        if changed {
            fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
        }
        anyhow::Ok(changed)
    };
    fs::create_dir_all(folder.join("loadtests"))
        .with_context(|| format!("could not make {}", folder.display()))?;
    write("Cargo.toml", &manifest)?;
    write("lib.rs", "//! Nothing: the scenario is all there is.\n")?;
    write(&format!("loadtests/{SCENARIO}.rs"), &scenario)?;
    // The library's own, so that what is measured is what is tested. Cargo takes from it what this workspace does not
    // need, so that it can be told from a newer one only by a copy that cargo does not touch.
    if write("library.lock", &locked)? {
        write("Cargo.lock", &locked)?;
    }
    Ok(())
}

/// Builds the Goose attack, whose dependencies have a lock of their own, and keeps it under `target/xtask/goose`.
pub(super) fn goose(root: &Path) -> Result<PathBuf> {
    let target = root.join("target/xtask/goose").display().to_string();
    process::build(
        &root.join("xtask/bench/goose"),
        "bench-goose",
        &["--release", "--locked", "--target-dir", &target],
    )
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::write;

    #[test]
    fn the_workspace_is_one_that_cargo_reads_and_it_is_not_written_twice() {
        let folder = TempDir::new().unwrap();
        write(crate::root(), folder.path()).unwrap();
        let manifest = folder.path().join("Cargo.toml");
        let written = std::fs::metadata(&manifest).unwrap().modified().unwrap();
        write(crate::root(), folder.path()).unwrap();
        assert_eq!(std::fs::metadata(&manifest).unwrap().modified().unwrap(), written);
        let mut command = crate::process::cargo(folder.path());
        let metadata = command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata = crate::process::output(metadata).unwrap();
        assert!(metadata.contains(r#""kind":["bench"]"#), "{metadata}");
    }
}
