//! Files that a scenario process reads.

use std::io;
use std::path::{Path, PathBuf};

/// Where a path leads that starts from the scenario's package: cargo and the tool name its folder; without them it is the
/// working folder.
pub(crate) fn in_package(path: &Path) -> PathBuf {
    super::env::var("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default().join(path)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}
