//! What the tasks read of a run's `summary.json`, and where the run's folder is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

const SCHEMA: &str = "loadtest.summary/1";

#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    schema: String,
    #[serde(default)]
    pub(crate) run: Run,
    #[serde(default)]
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) totals: Totals,
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) thresholds: Vec<Threshold>,
    #[serde(default)]
    pub(crate) attribution: Vec<Attribution>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Scenario {
    /// Of open models.
    #[serde(default)]
    pub(crate) lag_ms: Option<Latency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Threshold {
    pub(crate) metric: String,
    pub(crate) expression: String,
    pub(crate) passed: bool,
    pub(crate) text: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Run {
    #[serde(default)]
    pub(crate) trace: Trace,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Trace {
    #[serde(default)]
    pub(crate) requests_traced: u64,
    pub(crate) requests_joined_share: Option<f64>,
    #[serde(default)]
    pub(crate) not_joined: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) requests_per_s: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    pub(crate) step: String,
    pub(crate) latency_ms: Latency,
}

/// Absent where a step has no sample.
#[derive(Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    #[serde(default)]
    pub(crate) p99: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Attribution {
    pub(crate) step: String,
    pub(crate) band: String,
    #[serde(default)]
    pub(crate) requests_in_band: u64,
    #[serde(default)]
    pub(crate) mean_ms: f64,
    pub(crate) operations: Vec<Operation>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Operation {
    #[serde(default)]
    pub(crate) service: String,
    pub(crate) operation: String,
    #[serde(default)]
    pub(crate) kind: String,
    pub(crate) critical_ms: f64,
    /// Spans of it in a request, on average.
    #[serde(default)]
    pub(crate) calls: f64,
}

impl Summary {
    pub(crate) fn read(run: &Path) -> Result<Self> {
        let path = run.join("summary.json");
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("could not understand {}", path.display()))
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let summary: Self = serde_json::from_str(text)?;
        ensure!(summary.schema == SCHEMA, "its schema is {:?}, not {SCHEMA:?}", summary.schema);
        Ok(summary)
    }
}

/// The runs stored in a target directory, so that the one that a command adds can be told.
#[derive(Debug)]
pub(crate) struct Runs {
    folder: PathBuf,
    before: BTreeSet<PathBuf>,
}

impl Runs {
    pub(crate) fn in_target(target: &Path) -> Self {
        let folder = target.join("cargo-loadtest").join("runs");
        let before = stored(&folder);
        Self { folder, before }
    }

    /// The run that was stored since the last look.
    pub(crate) fn added(&mut self) -> Result<PathBuf> {
        let after = stored(&self.folder);
        let added: Vec<_> = after.difference(&self.before).cloned().collect();
        self.before = after;
        ensure!(added.len() == 1, "{} runs were stored in {}, not one", added.len(), self.folder.display());
        Ok(added.into_iter().next().expect("there is exactly one"))
    }
}

fn stored(folder: &Path) -> BTreeSet<PathBuf> {
    // Before the first run there is no such folder.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("summary.json").is_file()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::{Runs, Summary};

    #[test]
    fn a_run_that_was_added_is_told_from_those_before() {
        let target = TempDir::new().unwrap();
        let store = |run: &str| {
            let folder = target.path().join("cargo-loadtest/runs").join(run);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("summary.json"), "{}").unwrap();
            folder
        };
        let mut runs = Runs::in_target(target.path());
        assert!(runs.added().is_err());
        let first = store("b");
        assert_eq!(runs.added().unwrap(), first);
        let second = store("a");
        assert_eq!(runs.added().unwrap(), second);
        assert!(runs.added().is_err());
    }

    #[test]
    fn another_schema_is_refused() {
        let text = r#"{"schema":"loadtest.summary/2","totals":{"requests":1,"errors":0,"requests_per_s":1},"steps":[]}"#;
        assert!(Summary::parse(text).unwrap_err().to_string().contains("loadtest.summary/2"));
        assert_eq!(Summary::parse(&text.replace("/2", "/1")).unwrap().totals.requests, 1);
    }
}
