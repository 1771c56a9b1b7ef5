//! What git says of the working folder.

use std::path::Path;
use std::process::Stdio;

use super::process;

/// The commit that is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) commit: String,
    /// The branch, unless a commit is checked out by itself.
    pub(crate) branch: Option<String>,
    /// Tracked files differ from the commit.
    pub(crate) dirty: bool,
}

/// `None` outside of a repository, before the first commit, or without git.
pub(crate) async fn head(folder: &Path) -> Option<Head> {
    let commit = git(folder, &["rev-parse", "HEAD"]).await?;
    let branch = git(folder, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
    let changes = git(folder, &["status", "--porcelain", "--untracked-files=no"]).await?;
    Some(Head { commit, branch, dirty: !changes.is_empty() })
}

async fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = process::command("git");
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
