//! Results on disk: the folder of a run in cargo's target folder, what is written there as the run goes on, and how it
//! is read again.
//!
//! [`RunFolder::create`] makes the folder of a new run and removes the oldest ones; [`RunFolder::find`] finds a stored
//! one. During the run a [`Recorder`] takes every event, so that [`recover()`] can make a summary of a run that was killed.

mod histograms;
mod journal;
mod recorder;
mod recover;

use std::io;
use std::path::{Path, PathBuf};

use crate::model::id::RunId;
use crate::model::summary::{SCHEMA, Summary};
use crate::sys::fs::{self, WholeFile};

pub(crate) use journal::{Binary, JOURNAL_SCHEMA};
pub(crate) use recorder::Recorder;
pub(crate) use recover::recover;

/// Why results could not be written, found or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultsError {
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no runs are stored in {}; `cargo loadtest` makes one", folder.display())]
    NoRuns { folder: PathBuf },
    #[error("no stored run begins with `{wanted}`; the newest are {}", newest.join(", "))]
    UnknownRun { wanted: String, newest: Vec<String> },
    #[error("`{wanted}` could be {}; write more of it", candidates.join(", "))]
    AmbiguousRun { wanted: String, candidates: Vec<String> },
    #[error(
        "run {run} has no summary.json: it did not end; `cargo loadtest report --recover {run}` makes one of its journal"
    )]
    NotFinished { run: RunId },
    #[error("run {run} is still going on; interrupt it, and it reports by itself")]
    GoesOn { run: RunId },
    #[error("{} is not a summary of the schema {SCHEMA}: {reason}", path.display())]
    NotASummary { path: PathBuf, reason: String },
    #[error("{} is not a journal of the schema {JOURNAL_SCHEMA}: {reason}", path.display())]
    NotAJournal { path: PathBuf, reason: String },
}

impl ResultsError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// The folder of one run: `<target>/cargo-loadtest/runs/<run id>/`.
#[derive(Debug, Clone)]
pub(crate) struct RunFolder {
    id: RunId,
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a new run, readable by its owner alone, with an empty `services/` in it, and removes the
    /// oldest runs beyond `keep` (this one counts). What could not be removed is not worth failing a run for: it is
    /// handed back.
    pub(crate) fn create(
        target_dir: &Path,
        id: &RunId,
        keep: usize,
    ) -> Result<(Self, Vec<ResultsError>), ResultsError> {
        let runs = runs_folder(target_dir);
        fs::create_private_dir_all(&runs).map_err(ResultsError::io("create", &runs))?;
        let path = runs.join(id.as_str());
        let services = path.join("services");
        for folder in [&path, &services] {
            fs::create_private_dir(folder).map_err(ResultsError::io("create", folder))?;
        }
        Ok((Self { id: id.clone(), path }, prune(&runs, id, keep)))
    }

    /// The stored run whose id is `wanted` or begins with it; the newest where nothing is asked for.
    pub(crate) fn find(target_dir: &Path, wanted: Option<&str>) -> Result<Self, ResultsError> {
        let folder = runs_folder(target_dir);
        let runs = stored(&folder)?;
        if runs.is_empty() {
            return Err(ResultsError::NoRuns { folder });
        }
        let names = |runs: &[RunId]| runs.iter().rev().take(5).map(ToString::to_string).collect();
        let wanted = wanted.unwrap_or_default();
        let matching: Vec<RunId> =
            runs.iter().filter(|id| id.as_str().starts_with(wanted)).cloned().collect();
        let id = match matching.as_slice() {
            [one] => one.clone(),
            [.., newest] if wanted.is_empty() => newest.clone(),
            [] => {
                let newest = names(&runs);
                return Err(ResultsError::UnknownRun { wanted: wanted.to_owned(), newest });
            }
            several => {
                let candidates = names(several);
                return Err(ResultsError::AmbiguousRun { wanted: wanted.to_owned(), candidates });
            }
        };
        let path = folder.join(id.as_str());
        Ok(Self { id, path })
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the kept traces go, as OTLP JSON lines.
    pub(crate) fn spans(&self) -> Result<WholeFile, ResultsError> {
        let path = self.path.join("spans.otlp.jsonl");
        WholeFile::create(&path).map_err(ResultsError::io("create", &path))
    }

    /// Where each second's use of the host goes, as JSON lines.
    pub(crate) fn usage(&self) -> Result<WholeFile, ResultsError> {
        let path = self.path.join("usage.jsonl");
        WholeFile::create(&path).map_err(ResultsError::io("create", &path))
    }

    /// The folder of the services' logs.
    pub(crate) fn services(&self) -> PathBuf {
        self.path.join("services")
    }

    /// The folder `{run_dir}`, made anew: for what services keep during the run.
    pub(crate) fn data(&self) -> Result<PathBuf, ResultsError> {
        let path = self.path.join("data");
        Self::remove(&path)?;
        fs::create_private_dir(&path).map_err(ResultsError::io("create", &path))?;
        Ok(path)
    }

    /// Removes what only the run itself needed: the services' executables, their data, and files that it did not finish.
    pub(crate) fn tidy(&self) -> Result<(), ResultsError> {
        ["bin", "data"].iter().try_for_each(|name| Self::remove(&self.path.join(name)))?;
        fs::remove_unfinished(&self.path).map_err(ResultsError::io("remove unfinished files of", &self.path))
    }

    fn remove(path: &Path) -> Result<(), ResultsError> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ResultsError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a file of the run (`summary.json`, …) whole or not at all, and says where.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ResultsError> {
        let path = self.path.join(name);
        fs::write_whole(&path, bytes).map_err(ResultsError::io("write", &path))?;
        Ok(path)
    }

    /// The summary that the run ended with.
    pub(crate) fn summary(&self) -> Result<Summary, ResultsError> {
        let path = self.path.join("summary.json");
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ResultsError::NotFinished { run: self.id.clone() });
            }
            read => read.map_err(ResultsError::io("read", &path))?,
        };
        let summary: Summary = serde_json::from_slice(&bytes)
            .map_err(|error| ResultsError::NotASummary { path: path.clone(), reason: error.to_string() })?;
        if summary.schema == SCHEMA {
            Ok(summary)
        } else {
            Err(ResultsError::NotASummary { path, reason: format!("it says `{}`", summary.schema) })
        }
    }

    fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    fn histograms(&self) -> PathBuf {
        self.path.join("histograms.hlog")
    }
}

fn runs_folder(target_dir: &Path) -> PathBuf {
    target_dir.join("cargo-loadtest").join("runs")
}

/// The runs in `folder`, oldest first: real folders (no links) whose name is a run id.
fn stored(folder: &Path) -> Result<Vec<RunId>, ResultsError> {
    let names = fs::names(folder).map_err(ResultsError::io("read", folder))?;
    let mut runs: Vec<RunId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    runs.retain(|id| fs::is_real_dir(&folder.join(id.as_str())));
    runs.sort_unstable();
    Ok(runs)
}

fn prune(runs: &Path, current: &RunId, keep: usize) -> Vec<ResultsError> {
    let stored = match stored(runs) {
        Ok(stored) => stored,
        Err(error) => return vec![error],
    };
    let beyond = stored.len().saturating_sub(keep);
    let others = stored.iter().filter(|id| *id != current);
    others
        .take(beyond)
        .filter_map(|id| {
            let path = runs.join(id.as_str());
            fs::remove_dir_all(&path).map_err(ResultsError::io("remove", &path)).err()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::sample;
    use crate::sys::fs::write_whole;
    use crate::tool::report::json;

    fn id(n: u16) -> RunId {
        RunId::new(1_796_046_301_000_000_000 + u64::from(n) * 1_000_000_000, n)
    }

    fn create(target: &Path, n: u16, keep: usize) -> RunFolder {
        let (folder, not_removed) = RunFolder::create(target, &id(n), keep).unwrap();
        assert!(not_removed.is_empty(), "{not_removed:?}");
        folder
    }

    fn stored_runs(target: &Path) -> Vec<RunId> {
        stored(&runs_folder(target)).unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_enters_the_folder_and_reads_what_is_in_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let target = tempfile::tempdir().unwrap();
        let folder = create(target.path(), 1, 50);
        let recorder = Recorder::create(&folder, &sample::facts()).unwrap();
        folder.spans().unwrap().finish().unwrap();
        folder.write("summary.json", b"{}").unwrap();
        recorder.finish().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&folder.path().join("services"))), (0o700, 0o700));
        for name in ["journal", "histograms.hlog", "spans.otlp.jsonl", "summary.json"] {
            assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "no temporary file is left");
    }

    #[test]
    fn the_oldest_runs_beyond_the_limit_go_and_nothing_else() {
        let target = tempfile::tempdir().unwrap();
        for n in 2..=5 {
            create(target.path(), n, 50);
        }
        let runs = runs_folder(target.path());
        let elsewhere = tempfile::tempdir().unwrap();
        write_whole(&elsewhere.path().join("kept"), b"").unwrap();
        fs::create_dir(runs.join("not a run id")).unwrap();
        write_whole(&runs.join(id(0).as_str()), b"a file").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(elsewhere.path(), runs.join(id(7).as_str())).unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), runs.join(id(3).as_str()).join("link")).unwrap();
        }
        create(target.path(), 6, 2);
        assert_eq!(stored_runs(target.path()), [id(5), id(6)]);
        // The current run is the oldest by its clock, and stays all the same.
        create(target.path(), 1, 1);
        assert_eq!(stored_runs(target.path()), [id(1)]);
        assert!(elsewhere.path().join("kept").exists());
        assert!(runs.join("not a run id").exists() && runs.join(id(0).as_str()).exists());
    }

    #[test]
    fn a_run_id_that_is_taken_is_an_error_and_the_stored_run_is_untouched() {
        let target = tempfile::tempdir().unwrap();
        let folder = create(target.path(), 1, 50);
        folder.write("summary.json", b"mine").unwrap();
        let error = RunFolder::create(target.path(), &id(1), 50).unwrap_err();
        assert!(error.to_string().starts_with("cannot create"), "{error}");
        assert_eq!(fs::read(folder.path().join("summary.json")).unwrap(), b"mine");
    }

    #[test]
    fn a_run_is_found_by_the_beginning_of_its_id_and_the_newest_by_default() {
        let target = tempfile::tempdir().unwrap();
        let find = |wanted| RunFolder::find(target.path(), wanted).map(|folder| folder.id().clone());
        let error = find(None).unwrap_err().to_string();
        assert!(error.contains("no runs are stored") && error.contains("`cargo loadtest`"), "{error}");
        for n in [3, 1, 2] {
            create(target.path(), n, 50);
        }
        assert_eq!(find(None).unwrap(), id(3));
        let [first, second] = [id(1), id(2)];
        assert_eq!(find(Some(first.as_str())).unwrap(), first);
        assert_eq!(find(Some(&second.as_str()[..15])).unwrap(), second);
        for (wanted, words) in
            [("2026", "could be"), ("../../etc", "no stored run begins with"), ("1999", "newest")]
        {
            let error = find(Some(wanted)).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(id(3).as_str()), "{error}");
        }
    }

    #[test]
    fn a_summary_is_read_back_and_anything_else_is_refused_by_name() {
        let target = tempfile::tempdir().unwrap();
        let folder = create(target.path(), 1, 50);
        let refused = || folder.summary().unwrap_err().to_string();
        assert!(refused().contains(&format!("report --recover {}", folder.id())), "{}", refused());
        folder.write("summary.json", b"{\"schema\": 1").unwrap();
        assert!(refused().contains("is not a summary of the schema loadtest.summary/1"), "{}", refused());
        let mut summary = sample::summary();
        folder.write("summary.json", &json::summary(&summary)).unwrap();
        assert_eq!(folder.summary().unwrap(), summary);
        summary.schema = "loadtest.summary/2".into();
        folder.write("summary.json", &json::summary(&summary)).unwrap();
        assert!(refused().contains("loadtest.summary/2"), "{}", refused());
    }
}
