//! The program under test: how it is called, and what came of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::Server;
use crate::workspace;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-loadtest");

/// One call of a program in a workspace, in an environment that says nothing of load tests.
#[derive(Debug)]
pub(crate) struct Call(Command);

/// A call of the tool with `arguments` (separated by spaces) in `folder`.
pub(crate) fn tool(folder: &Path, arguments: &str) -> Call {
    program(PROGRAM, folder, arguments)
}

/// `run` in the workspace `load` of the one scenario `name`, against `server`.
pub(crate) fn run(name: &str, server: &Server) -> Call {
    tool(workspace::load(), &format!("run -p scenarios ::{name} --no-reference"))
        .args(["--base-url", &server.url()])
}

pub(crate) fn program(program: impl AsRef<OsStr>, folder: &Path, arguments: &str) -> Call {
    let mut command = Command::new(program);
    let foreign = |name: &str| {
        let prefixes =
            ["LOADTEST_", "__LOADTEST_", "OTEL_", "CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "NEXTEST"];
        prefixes.iter().any(|prefix| name.starts_with(prefix))
            || ["CARGO_TARGET_TMPDIR", "RUSTUP_TOOLCHAIN_SOURCE", "NO_COLOR", "OUT_DIR"].contains(&name)
            || name.to_ascii_lowercase().ends_with("_proxy")
    };
    for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
        command.env_remove(name);
    }
    command
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", workspace::build_folder())
        // What the repository itself needs is there, and fixtures need nothing else.
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null());
    Call(command)
}

impl Call {
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let output = self.0.output().unwrap();
        Ended {
            line: format!("{:?}", self.0),
            folder: self.0.get_current_dir().unwrap().to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    line: String,
    folder: PathBuf,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Panics with everything that was printed unless the exit code is `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Panics unless stderr has each of `texts`.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in the errors of {self}");
        }
        self
    }

    /// Panics unless stdout has each of `texts`.
    #[track_caller]
    pub(crate) fn prints(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stdout.contains(text), "no `{text}` in the output of {self}");
        }
        self
    }

    /// The folder of the run's results.
    #[track_caller]
    pub(crate) fn run_folder(&self) -> PathBuf {
        let shown = self.stdout.lines().find_map(|line| line.strip_prefix("run saved: "));
        let Some(shown) = shown else { panic!("no results in {self}") };
        self.folder.join(shown)
    }

    /// `summary.json`.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        let path = self.run_folder().join("summary.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, code, stdout, stderr, .. } = self;
        write!(f, "{line} (exit code {code:?})\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
