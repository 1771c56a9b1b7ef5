//! `cargo loadtest` as a process of its own in the fixture workspace `robust`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// In the environment of everything that a call starts.
pub(crate) const MARKER: &str = "ROBUST_MARKER";

/// The target folder that fixture workspaces share.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("fixtures")
}

/// A call of the tool that is not started yet.
pub(crate) struct Call {
    pub(crate) command: Command,
    /// A word that no other call has.
    pub(crate) marker: String,
}

/// `cargo-loadtest loadtest ARGUMENTS`, as cargo calls it.
pub(crate) fn call(arguments: &[&str]) -> Call {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let marker = format!("m{now}-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-loadtest"));
    command
        .arg("loadtest")
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/robust"))
        .env("CARGO_TARGET_DIR", target())
        .env(MARKER, &marker)
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let inherited = std::env::vars().map(|(name, _)| name);
    inherited.filter(|name| name.starts_with("OTEL_") || name.starts_with("LOADTEST_")).for_each(|name| {
        command.env_remove(name);
    });
    Call { command, marker }
}

/// `cargo loadtest run ARGUMENTS`, with everything built before.
pub(crate) fn run(arguments: &[&str]) -> Call {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let ended = call(&["run", "--no-run", "--profile", "family", "--locked"]).finish();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    });
    call(&[&["run", "--locked"], arguments].concat())
}

impl Call {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds `--base-url` for `server`, with the marker in its path, by which the run's folder is found.
    pub(crate) fn against(mut self, server: &str) -> Self {
        self.command.args(["--base-url", &format!("{server}/{}", self.marker)]);
        self
    }

    /// Runs it to its end.
    pub(crate) fn finish(mut self) -> Ended {
        let Output { status, stdout, stderr } = self.command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { status, stdout: text(stdout), stderr: text(stderr), marker: self.marker }
    }
}

/// What the tool said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) marker: String,
}

impl Ended {
    /// The exit code; a signal is told as shells tell it.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap()
    }

    /// The folder of the run whose base URL has the marker in it; `None` where the run had none yet.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        folder(&self.marker)
    }

    /// `summary.json`, for which the run has to have been called with [`Call::against`].
    pub(crate) fn summary(&self) -> serde_json::Value {
        let folder = self.folder().unwrap_or_else(|| panic!("no folder of the run:\n{}", self.stderr));
        let path = folder.join("summary.json");
        let text =
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.stderr));
        serde_json::from_slice(&text).unwrap()
    }
}

/// The runs that are stored, by the marker in their base URL.
fn folder(marker: &str) -> Option<PathBuf> {
    let wanted = format!("/{marker}\"");
    let runs = fs::read_dir(target().join("cargo-loadtest/runs")).ok()?;
    runs.filter_map(|run| Some(run.ok()?.path())).find(|run| {
        let journal = fs::read_to_string(run.join("journal")).unwrap_or_default();
        journal.lines().next().is_some_and(|first| first.contains(&wanted))
    })
}
