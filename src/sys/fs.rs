//! Files that appear whole or not at all, and folders and files that only their owner reads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub(crate) use super::file::read;

/// How unfinished files are called, in the folder of the file that they will be.
const TEMPORARY_PREFIX: &str = ".writing-";

/// Writes `bytes` to `path`: to a temporary name in the same folder first, synced, then renamed, so that a killed
/// process never leaves a half-written file under its final name.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A file that is written bit by bit and stands under its final name only when it is finished.
/// Dropped before that, it leaves nothing.
#[derive(Debug)]
pub(crate) struct WholeFile {
    temporary: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl WholeFile {
    /// Readable by its owner alone, under a temporary name in the folder of `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
        Ok(Self { temporary: BufWriter::new(temporary), path: path.to_owned() })
    }

    /// Syncs the file and gives it its name, in place of any other file of that name.
    pub(crate) fn finish(self) -> io::Result<()> {
        let temporary = self.temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// Makes a folder that only its owner enters; one that exists already (or a link of that name) is an error.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    private_dir_builder().create(path)
}

/// The same with all folders above it that are missing; existing ones are left as they are.
pub(crate) fn create_private_dir_all(path: &Path) -> io::Result<()> {
    private_dir_builder().recursive(true).create(path)
}

fn private_dir_builder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Makes a file that only its owner reads, for appending; one that exists already (or a link) is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Takes the lock of a file, for as long as it stays open; `false`: another opener has it. A file system without locks
/// gives every one that is asked for.
pub(crate) fn lock(file: &File) -> bool {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        flock(file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        true
    }
}

/// Removes the unfinished files that a killed process has left in a folder.
pub(crate) fn remove_unfinished(folder: &Path) -> io::Result<()> {
    let unfinished = names(folder)?.into_iter().filter(|name| name.starts_with(TEMPORARY_PREFIX));
    unfinished.map(|name| folder.join(name)).try_for_each(fs::remove_file)
}

/// Whether `path` itself, not what a link there points to, is a folder.
pub(crate) fn is_real_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The names in a folder that are UTF-8; none where the folder does not exist.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
}

/// Removes a folder and what is in it. Links in it are removed, not followed.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens `path` for appending; it and its folder, where new, are for this user alone.
pub(crate) fn append_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        create_private_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The whole of a text file; `None` if there is no such file.
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The files directly in `folder`, sorted; none if there is no such folder.
pub(crate) fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The file `name` in `folder`, or in the closest folder above that has one.
pub(crate) fn nearest(folder: &Path, name: &str) -> Option<PathBuf> {
    folder.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The path without links and dots; as it is if it leads nowhere.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Copies an executable, for this user alone.
pub(crate) fn copy_executable(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        create_private_dir_all(folder)?;
    }
    fs::copy(from, to)?;
    #[cfg(unix)]
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// Writes a file of the user's own, whole or not at all, with the permissions that new files of theirs have, and the
/// folders above it.
pub(crate) fn write_source(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = WholeFile::create(path)?;
    file.write_all(text.as_bytes())?;
    if let Ok(before) = fs::metadata(path) {
        fs::set_permissions(file.temporary.get_ref().path(), before.permissions())?;
    }
    file.finish()
}

/// Removes a file.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}
