//! Starting programs: cargo above all, without what `cargo run` has set for this process.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// What `cargo run` sets for this package. Handed on, it would make build scripts that watch it run again.
const OF_THIS_PACKAGE: &[&str] =
    &["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"];

/// The cargo that runs this task, to be started in `folder`.
pub(crate) fn cargo(folder: &Path) -> Command {
    program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), folder)
}

pub(crate) fn program(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OF_THIS_PACKAGE.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(&name);
        }
    }
    command
}

/// The command as one would type it: the program's name, arguments, and what was added to the environment.
pub(crate) fn shown(command: &Command) -> String {
    let added =
        command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
    let name = Path::new(command.get_program()).file_stem().unwrap_or_default();
    added
        .chain([name.display().to_string()])
        .chain(command.get_args().map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.display().to_string();
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '$')) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word
    }
}

/// Runs it with this process's streams, to success.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    Ok(())
}

/// Runs it to success and returns what it printed; what it complained of becomes part of the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}: {}", shown(command), output.status, complaint.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` did not print text", shown(command)))
}

/// A line of `cargo build --message-format json`.
#[derive(Debug, Deserialize)]
struct BuildMessage {
    reason: String,
    #[serde(default)]
    target: Option<BuiltTarget>,
    #[serde(default)]
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct BuiltTarget {
    name: String,
}

/// Builds with `cargo build` and these arguments, and returns the executable of the target `name`.
pub(crate) fn build(folder: &Path, name: &str, arguments: &[&str]) -> Result<PathBuf> {
    let mut command = cargo(folder);
    command.arg("build").args(arguments);
    eprintln!("$ {}", shown(&command));
    command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let messages = output(&mut command)?;
    let built = messages.lines().filter_map(|line| serde_json::from_str::<BuildMessage>(line).ok());
    let of_target = |message: &BuildMessage| {
        message.reason == "compiler-artifact"
            && message.target.as_ref().is_some_and(|target| target.name == name)
    };
    let executable = built.filter(of_target).find_map(|message| message.executable);
    executable.with_context(|| format!("`{}` built no executable {name}", shown(&command)))
}

#[derive(Debug, Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Where cargo puts what it builds for the workspace in `folder`.
pub(crate) fn target_directory(folder: &Path) -> Result<PathBuf> {
    let mut command = cargo(folder);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Metadata = serde_json::from_str(&output(&mut command)?)
        .context("could not read what `cargo metadata` printed")?;
    Ok(metadata.target_directory)
}

#[cfg(test)]
mod tests {
    use super::{cargo, output, program, shown, target_directory};

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = program("/usr/bin/env", crate::root());
        command.args(["plain", "two words", "it's", ""]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' env plain 'two words' 'it'\''s' ''");
    }

    #[test]
    fn a_failure_carries_the_command_and_its_complaint() {
        let error = output(cargo(crate::root()).args(["tree", "--package", "no-such-package"])).unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("cargo tree --package no-such-package"), "{message}");
        assert!(message.contains("did not match any packages"), "{message}");
    }

    #[test]
    fn what_cargo_set_for_this_package_is_not_handed_on() {
        let command = cargo(crate::root());
        let removed = |name: &str| command.get_envs().any(|(found, value)| found == name && value.is_none());
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
        assert!(!removed("CARGO_HOME"));
    }

    #[test]
    fn the_target_directory_is_cargos_own_answer() {
        assert!(target_directory(crate::root()).unwrap().is_absolute());
    }
}
