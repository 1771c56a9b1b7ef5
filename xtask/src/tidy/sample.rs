//! A small tree in a temporary folder that keeps every rule, to be spoiled one rule at a time.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::Finding;
use super::tree::Tree;

const GOOD: &[(&str, &str)] = &[
    ("Cargo.toml", MANIFEST),
    ("Cargo.lock", LOCK),
    (
        "opentelemetry/Cargo.toml",
        "[package]\nname = \"opentelemetry\"\nversion = \"0.33.1\"\nedition = \"2024\"\n",
    ),
    ("opentelemetry/src/lib.rs", "//! Stands for the crate of this name.\n"),
    ("ARCHITECTURE.md", ARCHITECTURE),
    ("src/lib.rs", LIB),
    ("src/main.rs", "//! The command.\nfn main() {}\n"),
    ("src/model/mod.rs", "//! Values.\npub(crate) mod id;\n"),
    ("src/model/id.rs", "//! Ids.\n"),
    ("src/runtime/mod.rs", "//! The runtime half.\npub(crate) mod host;\n"),
    ("src/runtime/host.rs", "//! The host.\npub struct Vu;\n"),
    ("src/tool/mod.rs", "//! The tool half.\npub(crate) mod drive;\n"),
    ("src/tool/drive.rs", "//! Drives.\n"),
    ("examples/blog/Cargo.toml", "[workspace]\nmembers = []\n"),
    ("examples/blog/Cargo.lock", LOCK),
];

const MANIFEST: &str = r#"[workspace]

[package]
name = "cargo-loadtest"
version = "0.1.0"
edition = "2024"

[features]
cli = []

[dependencies]
opentelemetry = { path = "opentelemetry" }
"#;

const LOCK: &str = r#"version = 4

[[package]]
name = "cargo-loadtest"
version = "0.1.0"
dependencies = [
 "opentelemetry",
]

[[package]]
name = "opentelemetry"
version = "0.33.1"
"#;

const LIB: &str = r#"//! A library.

mod model;
mod runtime;
#[cfg(feature = "cli")]
mod tool;

pub use runtime::host::Vu;

/// What a scenario imports.
pub mod prelude {
    pub use crate::runtime::host::Vu;
}

#[doc(hidden)]
#[cfg(feature = "cli")]
pub mod __cli {
    pub use crate::tool::drive;
}
"#;

const ARCHITECTURE: &str = "# Architecture

```
src/
  model/     values
  runtime/   linked into scenarios
  tool/      the subcommand
examples/    workspaces
```

## Invariants

- `model` has no clock.
";

#[derive(Debug)]
pub(super) struct Sample {
    folder: TempDir,
}

impl Sample {
    pub(super) fn good() -> Self {
        let sample = Self { folder: TempDir::new().unwrap() };
        for (path, text) in GOOD {
            sample.write(path, text);
        }
        sample
    }

    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces `old`, which must be there, in the file at `path`.
    pub(super) fn replace(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.root().join(path)).unwrap();
        assert!(text.contains(old), "{path} has no {old:?}");
        self.write(path, &text.replacen(old, new, 1));
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::read(self.root()).unwrap()
    }

    /// The findings of `rule` are all in `path`, on exactly these lines.
    #[track_caller]
    pub(super) fn assert_lines(&self, rule: fn(&Tree) -> Vec<Finding>, path: &str, lines: &[usize]) {
        let findings = rule(&self.tree());
        let found: Vec<_> = findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
        let expected: Vec<_> = lines.iter().map(|line| (path, *line)).collect();
        let text = fs::read_to_string(self.root().join(path)).unwrap_or_default();
        assert_eq!(found, expected, "{findings:#?}\nin\n{text}");
    }
}

/// Writes `code`, under a first line of documentation, to `path` of a good tree, and asserts what `rule` finds there.
#[track_caller]
pub(super) fn check(rule: fn(&Tree) -> Vec<Finding>, path: &str, code: &str, lines: &[usize]) {
    let sample = Sample::good();
    let code = if path == "src/lib.rs" { code.to_owned() } else { format!("//! Owns.\n{code}\n") };
    sample.write(path, &code);
    sample.assert_lines(rule, path, lines);
}
