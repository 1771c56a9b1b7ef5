//! Cargo's JSON messages: which executables a build made.

use std::path::PathBuf;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::BuildError;

/// An executable that cargo made, or found to be fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Artifact {
    pub(super) package_id: String,
    pub(super) kinds: Vec<String>,
    pub(super) name: String,
    pub(super) executable: PathBuf,
}

impl Artifact {
    pub(super) fn is(&self, package_id: &str, kind: &str, name: &str) -> bool {
        self.package_id == package_id && self.name == name && self.kinds.iter().any(|known| known == kind)
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        package_id: String,
        target: MessageTarget,
        executable: Option<PathBuf>,
    },
    /// Kinds of messages that say nothing here, and those of later cargos.
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct MessageTarget {
    kind: Vec<String>,
    name: String,
}

/// Runs a build to its end and returns the executables. Whether it failed is judged by what is missing: cargo's exit
/// code speaks of everything it built, also of what nobody asked for.
pub(super) async fn run(program: &str, mut command: Command) -> Result<Vec<Artifact>, BuildError> {
    command.args(["--message-format", "json-render-diagnostics"]);
    let mut child =
        command.spawn().map_err(|source| BuildError::Start { program: program.to_owned(), source })?;
    let mut artifacts = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).split(b'\n');
        while let Some(line) = lines.next_segment().await.map_err(BuildError::Messages)? {
            artifacts.extend(artifact(&line));
        }
    }
    child.wait().await.map_err(BuildError::Messages)?;
    Ok(artifacts)
}

/// Build scripts and wrappers may print lines of their own among the messages; they are skipped.
fn artifact(line: &[u8]) -> Option<Artifact> {
    match serde_json::from_slice(line).ok()? {
        Message::CompilerArtifact { package_id, target, executable: Some(executable) } => {
            Some(Artifact { package_id, kinds: target.kind, name: target.name, executable })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_read_and_everything_else_is_skipped() {
        let made = br#"{"reason":"compiler-artifact","package_id":"path+file:///w#a@0.1.0","target":{"kind":["bench"],"name":"auth","new":1},"executable":"/t/auth-1f","fresh":true}"#;
        let artifact = artifact(made).unwrap();
        assert!(artifact.is("path+file:///w#a@0.1.0", "bench", "auth"));
        assert!(!artifact.is("path+file:///w#b@0.1.0", "bench", "auth"));
        assert!(!artifact.is("path+file:///w#a@0.1.0", "bin", "auth"));
        assert_eq!(artifact.executable, PathBuf::from("/t/auth-1f"));

        for line in [
            r#"{"reason":"compiler-artifact","package_id":"x","target":{"kind":["lib"],"name":"a"},"executable":null}"#,
            r#"{"reason":"build-finished","success":false}"#,
            r#"{"reason":"of-a-later-cargo","executable":"/x"}"#,
            "hello from a build script",
            "\u{fffd}{",
            "",
        ] {
            assert_eq!(super::artifact(line.as_bytes()), None, "{line}");
        }
        assert_eq!(super::artifact(b"\xff\xfe"), None);
    }
}
