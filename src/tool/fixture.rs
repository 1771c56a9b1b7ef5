//! Copies of fixture workspaces, for tests that call cargo.

use std::path::{Path, PathBuf};

use super::cargo::{Cargo, CargoFlags};

/// A fixture's copy in a temporary folder, removed at the end of the test.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Copies `tests/fixtures/{name}`.
    pub(crate) fn copy(name: &str) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        copy_tree(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name),
            fixture.folder.path(),
        );
        fixture
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::sys::fs::write_whole(&path, text.as_bytes()).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// Cargo as called in a folder of the copy.
    pub(crate) fn cargo_in(&self, folder: &str) -> Cargo {
        Cargo::at(self.path(folder))
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Fixtures need nothing from a registry.
pub(crate) fn offline() -> CargoFlags {
    CargoFlags { offline: true, quiet: true, ..CargoFlags::default() }
}

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
