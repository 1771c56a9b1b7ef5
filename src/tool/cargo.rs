//! How cargo is called: which program, in which folder, with which of the user's flags, in which environment.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use crate::sys;

/// Cargo's own flags, as the user gave them.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are cargo's switches")]
pub(crate) struct CargoFlags {
    pub(crate) packages: Vec<String>,
    pub(crate) workspace: bool,
    pub(crate) exclude: Vec<String>,
    /// These three speak of scenario packages; services have `features` in the configuration.
    pub(crate) features: Vec<String>,
    pub(crate) all_features: bool,
    pub(crate) no_default_features: bool,
    /// The profile of services.
    pub(crate) cargo_profile: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) target_dir: Option<PathBuf>,
    pub(crate) jobs: Option<String>,
    pub(crate) manifest_path: Option<PathBuf>,
    pub(crate) config: Vec<String>,
    pub(crate) offline: bool,
    pub(crate) locked: bool,
    pub(crate) frozen: bool,
    pub(crate) verbose: u8,
    pub(crate) quiet: bool,
    pub(crate) color: Option<String>,
}

impl CargoFlags {
    /// Flags that every cargo command takes, and that decide which workspace is seen and how.
    fn manifest_arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        arguments.option("--manifest-path", self.manifest_path.as_ref());
        arguments.options("--config", &self.config);
        arguments.option("--color", self.color.as_ref());
        arguments.switch("--offline", self.offline);
        arguments.switch("--locked", self.locked);
        arguments.switch("--frozen", self.frozen);
        arguments.0
    }

    /// Flags that decide which features of scenario packages are on.
    pub(crate) fn feature_arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        arguments.options("--features", &self.features);
        arguments.switch("--all-features", self.all_features);
        arguments.switch("--no-default-features", self.no_default_features);
        arguments.0
    }

    /// Flags that every build takes.
    pub(crate) fn build_arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        arguments.option("--target", self.target.as_ref());
        arguments.option("--target-dir", self.target_dir.as_ref());
        arguments.option("--jobs", self.jobs.as_ref());
        for _ in 0..self.verbose {
            arguments.switch("--verbose", true);
        }
        arguments.switch("--quiet", self.quiet);
        arguments.0
    }
}

#[derive(Debug, Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn switch(&mut self, name: &str, on: bool) {
        if on {
            self.0.push(name.into());
        }
    }

    fn option<T: Clone + Into<OsString>>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.0.extend([name.into(), value.clone().into()]);
        }
    }

    fn options(&mut self, name: &str, values: &[String]) {
        for value in values {
            self.option(name, Some(value));
        }
    }
}

/// The cargo that is called, and the folder it is called in.
#[derive(Debug, Clone)]
pub(crate) struct Cargo {
    program: String,
    folder: PathBuf,
}

impl Cargo {
    /// The cargo that called this subcommand, else the one on the search path; in the working folder.
    pub(crate) fn from_env() -> io::Result<Self> {
        Ok(Self::at(sys::env::current_dir()?))
    }

    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { program: sys::env::var("CARGO").unwrap_or_else(|| "cargo".to_owned()), folder }
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The manifest that the flags name, else the closest one.
    pub(crate) fn manifest(&self, flags: &CargoFlags) -> Option<PathBuf> {
        match &flags.manifest_path {
            Some(path) => Some(self.folder.join(path)),
            None => sys::fs::nearest(&self.folder, "Cargo.toml"),
        }
    }

    /// A cargo command whose output is read and whose messages go where this process's do. It is killed when it is
    /// dropped before its end.
    pub(crate) fn command(&self, subcommand: &str, flags: &CargoFlags) -> Command {
        let mut command = sys::process::command(&self.program);
        command
            .arg(subcommand)
            .args(flags.manifest_arguments())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        for (name, _) in sys::env::vars().filter(|(name, _)| speaks_of_one_package(name)) {
            command.env_remove(name);
        }
        command
    }
}

/// Whether cargo sets the variable for one package that it runs or builds. Inherited, as under `cargo run`, it would
/// make units look changed and builds see the wrong package.
fn speaks_of_one_package(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CFG_"];
    const NAMES: [&str; 7] = [
        "CARGO_CRATE_NAME",
        "CARGO_MAKEFLAGS",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_RUSTC_CURRENT_DIR",
        "CARGO_TARGET_TMPDIR",
        "OUT_DIR",
        "__CARGO_TEST_ROOT",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_one_package_are_removed_and_the_users_settings_kept() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "OUT_DIR"]
        {
            assert!(speaks_of_one_package(name), "{name}");
        }
        for name in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_JOBS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_NET_OFFLINE",
            "RUSTUP_TOOLCHAIN",
            "RUSTFLAGS",
        ] {
            assert!(!speaks_of_one_package(name), "{name}");
        }
    }

    #[test]
    fn a_command_does_not_inherit_what_cargo_said_of_the_running_package() {
        // Tests run under cargo, which sets this.
        assert_eq!(sys::env::var("CARGO_PKG_NAME").as_deref(), Some("cargo-loadtest"));
        let command = Cargo::at(".".into()).command("build", &CargoFlags::default());
        let removed: Vec<_> =
            command.as_std().get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(removed.contains(&"CARGO_PKG_NAME".as_ref()), "{removed:?}");
        assert!(removed.contains(&"CARGO_MANIFEST_DIR".as_ref()), "{removed:?}");
    }

    #[test]
    fn the_users_flags_reach_cargo() {
        let flags = CargoFlags {
            features: vec!["a".into(), "b/c".into()],
            target_dir: Some("my target".into()),
            jobs: Some("2".into()),
            manifest_path: Some("x/Cargo.toml".into()),
            config: vec!["net.offline=true".into()],
            locked: true,
            verbose: 2,
            ..CargoFlags::default()
        };
        assert_eq!(
            flags.manifest_arguments(),
            ["--manifest-path", "x/Cargo.toml", "--config", "net.offline=true", "--locked"]
        );
        assert_eq!(flags.feature_arguments(), ["--features", "a", "--features", "b/c"]);
        assert_eq!(
            flags.build_arguments(),
            ["--target-dir", "my target", "--jobs", "2", "--verbose", "--verbose"]
        );
    }
}
