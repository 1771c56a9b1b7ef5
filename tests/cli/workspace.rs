//! Copies of fixture workspaces, and the one target folder that all of them share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
/// How fixtures say where the library is, seen from their place in the repository.
const LIBRARY_FROM_FIXTURE: [&str; 2] = [r#"path = "../../..""#, r#"path = "../../../..""#];

/// Where fixtures are built: under the target folder of these tests, so that `cargo clean` removes it.
pub(crate) fn build_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures")
}

/// This checkout, for a dependency on the library.
pub(crate) fn library() -> &'static Path {
    Path::new(REPOSITORY)
}

/// The workspace `load`, at a place of its own so that a build of it serves all tests. Nobody changes it.
pub(crate) fn load() -> &'static Path {
    static LOAD: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("load");
        copy_fixture("load", &folder).unwrap();
        folder
    });
    &LOAD
}

/// The workspace `members`, at a place whose name has a space and letters beyond ASCII. Nobody changes it.
pub(crate) fn members() -> &'static Path {
    static MEMBERS: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mémbers of ours");
        copy_fixture("members", &folder).unwrap();
        folder.join("root")
    });
    &MEMBERS
}

/// As in the fixtures' manifests, so that all share what is built.
const PROFILE: &str = "[profile.release]\nopt-level = 1\ndebug = false\n";

/// A package for one test, which is its own workspace and has no scenario, with `files` as `(path, text)`.
///
/// In one target folder, cargo takes packages of different workspaces for the same one if their name and their path from
/// the root are the same, so that each has a name of its own.
pub(crate) fn package(name: &str, files: &[(&str, &str)]) -> TempDir {
    let manifest = format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2024'\n\n{PROFILE}");
    let own = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "//! Nothing.\n")];
    of(&[&own[..], files].concat())
}

/// A workspace for one test, from `(path, text)`, with this repository's lock file.
pub(crate) fn of(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::copy(library().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    folder
}

/// Copies a fixture. What is there already and the same stays untouched: for cargo, it has not changed.
fn copy_fixture(name: &str, to: &Path) -> io::Result<()> {
    let from = library().join("tests/fixtures").join(name);
    copy(&from, to)?;
    let root = if to.join("Cargo.toml").exists() { to.to_owned() } else { to.join("root") };
    // Cargo takes what it needs of it, so that fixtures use the very versions that the repository does, and writes
    // the rest away: whether the repository's has changed since is seen by a copy beside it.
    let (lock, taken) = (fs::read(library().join("Cargo.lock"))?, root.join("Cargo.lock.taken"));
    if fs::read(&taken).is_ok_and(|taken| taken == lock) {
        return Ok(());
    }
    fs::write(root.join("Cargo.lock"), &lock)?;
    fs::write(taken, &lock)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
            continue;
        }
        let text = fs::read_to_string(entry.path())?;
        let text = LIBRARY_FROM_FIXTURE
            .iter()
            .fold(text, |text, path| text.replace(path, &format!("path = {REPOSITORY:?}")));
        if fs::read_to_string(&to).is_ok_and(|there| there == text) {
            continue;
        }
        // Whole or not at all: another test process may be reading.
        let mut whole = tempfile::NamedTempFile::new_in(to.parent().expect("a folder"))?;
        io::Write::write_all(&mut whole, text.as_bytes())?;
        whole.persist(&to)?;
    }
    Ok(())
}
