//! Files that a scenario process reads.

use std::io;
use std::path::Path;

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}
