//! Files that appear whole or not at all.

use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to `path`: to a temporary name in the same folder first, synced, then renamed, so that a killed
/// process never leaves a half-written file under its final name.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}
