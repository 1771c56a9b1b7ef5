//! The repository as the rules see it: its text files, and the Rust ones parsed.

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::names::{self, Mention};

/// What is built, fetched or kept by git, never what is written here. In a worktree `.git` is a file.
const NOT_OURS: &[&str] = &[".git", "node_modules", "target"];

const HIDDEN_AND_OURS: &[&str] = &[".cargo", ".ci", ".config", ".github"];

pub(super) struct Tree {
    root: PathBuf,
    files: Vec<File>,
    mentions: OnceCell<Vec<Mention>>,
}

pub(super) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// For a file that ends in `.rs`.
    pub(super) rust: Option<syn::Result<syn::File>>,
}

impl File {
    pub(super) fn syntax(&self) -> Option<&syn::File> {
        self.rust.as_ref()?.as_ref().ok()
    }

    pub(super) fn is_rust(&self) -> bool {
        self.rust.is_some()
    }

    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The module path of a file of the library (`src/lib.rs` is the empty one); `None` for every other file.
    pub(super) fn module(&self) -> Option<Vec<String>> {
        let inner = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        if inner == "main" {
            return None;
        }
        let mut segments: Vec<_> = inner.split('/').map(str::to_owned).collect();
        if matches!(segments.last()?.as_str(), "mod" | "lib") {
            segments.pop();
        }
        Some(segments)
    }
}

impl Tree {
    /// Reads every text file below `root`, but for hidden folders (except CI's) and what is built.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        collect(root, &mut paths)?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                // Not text: nothing for these rules.
                Err(error) if error.kind() == ErrorKind::InvalidData => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("could not read {}", path.display()));
                }
            };
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let relative: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            let rust = path.extension().is_some_and(|ext| ext == "rs").then(|| syn::parse_file(&text));
            files.push(File { path: relative.join("/"), text, rust });
        }
        Ok(Self { root: root.to_owned(), files, mentions: OnceCell::new() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Every name that the library's modules mention, resolved.
    pub(super) fn mentions(&self) -> &[Mention] {
        self.mentions.get_or_init(|| names::mentions(&self.files))
    }

    /// The folders below `src/`, as paths relative to the root.
    pub(super) fn source_folders(&self) -> Vec<&str> {
        let mut folders: Vec<&str> = self
            .files
            .iter()
            .filter(|file| file.path.starts_with("src/"))
            .flat_map(|file| file.path.match_indices('/').map(|(at, _)| &file.path[..at]))
            .filter(|folder| *folder != "src")
            .collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("could not list {}", folder.display()))?;
        let kind =
            entry.file_type().with_context(|| format!("could not look at {}", entry.path().display()))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if NOT_OURS.contains(&&*name) {
            continue;
        }
        let hidden = name.starts_with('.') && !HIDDEN_AND_OURS.contains(&&*name);
        if kind.is_dir() && !hidden {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}
