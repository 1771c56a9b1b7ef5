//! Makes a summary of a run that was killed, from its journal.

use std::collections::BTreeMap;
use std::io::{self, BufReader};

use super::histograms::HistogramLog;
use super::journal::{Binary, JOURNAL_SCHEMA, Line, Lines, Record};
use super::{ResultsError, RunFolder};
use crate::model::event::{Event, Warning};
use crate::model::stats::RunStats;
use crate::model::summarise::{BinaryRun, Inputs, Joined, RunFacts, summarise};
use crate::model::summary::{Health, Summary};
use crate::model::verdict::Outcome;
use crate::sys::fs;

/// What the journal of a run tells.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) facts: RunFacts,
    /// In the order in which they ran.
    pub(crate) binaries: Vec<RecoveredBinary>,
    /// Lines that were torn or altered, and left out.
    pub(crate) damaged_lines: u64,
    /// Verdict "interrupted"; not known to be valid, since the generator's health is not journaled.
    pub(crate) summary: Summary,
}

/// What one scenario binary had measured.
#[derive(Debug)]
pub(crate) struct RecoveredBinary {
    pub(crate) binary: Binary,
    pub(crate) stats: RunStats,
}

/// What is gathered line by line.
#[derive(Default)]
struct Gathered {
    binaries: BTreeMap<usize, RecoveredBinary>,
    warnings: Vec<Warning>,
    damaged: u64,
    unknown: u64,
}

/// Rebuilds what a killed run had measured. Where the run left no `histograms.hlog`, it is written now.
///
/// # Errors
/// Where there is no journal, or its first line does not say which run it is of. Damage after that is left out, and the
/// summary warns of it.
pub(crate) fn recover(folder: &RunFolder) -> Result<Recovered, ResultsError> {
    let path = folder.journal();
    let file = fs::open(&path).map_err(ResultsError::io("open", &path))?;
    let mut lines = Lines::new(BufReader::new(file));
    let not_a_journal =
        |reason: &str| ResultsError::NotAJournal { path: path.clone(), reason: reason.to_owned() };
    let first = lines.next().map_err(ResultsError::io("read", &path))?;
    let Some(Line::Record(first)) = first else {
        return Err(not_a_journal("its first line is missing or damaged"));
    };
    let facts = match *first {
        Record::Run { schema, id, started_unix_ns, commit, dirty, base_url } if schema == JOURNAL_SCHEMA => {
            RunFacts { id, started_unix_ns, commit, dirty, base_url }
        }
        Record::Run { schema, .. } => return Err(not_a_journal(&format!("it says `{schema}`"))),
        _ => return Err(not_a_journal("its first line does not say which run it is of")),
    };

    let mut gathered = Gathered::default();
    let mut histograms = match folder.histograms() {
        path if path.exists() => None,
        path => Some(
            HistogramLog::create(&path, facts.started_unix_ns).map_err(ResultsError::io("create", &path))?,
        ),
    };
    while let Some(line) = lines.next().map_err(ResultsError::io("read", &path))? {
        gathered.take(line, histograms.as_mut()).map_err(ResultsError::io("write", &folder.histograms()))?;
    }
    if let Some(histograms) = histograms {
        histograms.finish().map_err(ResultsError::io("write", &folder.histograms()))?;
    }
    Ok(gathered.into_recovered(facts))
}

impl Gathered {
    fn take(&mut self, line: Line, histograms: Option<&mut HistogramLog>) -> io::Result<()> {
        let record = match line {
            Line::Record(record) => *record,
            Line::Unknown => {
                self.unknown += 1;
                return Ok(());
            }
            Line::Damaged => {
                self.damaged += 1;
                return Ok(());
            }
        };
        match record {
            Record::Binary { index, binary } => {
                let binary = RecoveredBinary { binary: binary.into_owned(), stats: RunStats::default() };
                self.binaries.insert(index, binary);
            }
            Record::Event { binary, event } => {
                if let Some(histograms) = histograms {
                    histograms.event(&event)?;
                }
                match (event.into_owned(), self.binaries.get_mut(&binary)) {
                    (Event::Interval(interval), Some(binary)) => binary.stats.add(&interval),
                    // The line that names the binary was damaged: its intervals have no place.
                    (Event::Interval(_), None) => self.damaged += 1,
                    (Event::Warning(warning), _) => self.warnings.push(warning),
                    (Event::Failed(failure), _) => {
                        self.warnings.push(Warning::new("failed", failure.message))
                    }
                    (Event::Listing(_) | Event::PhaseStarted { .. } | Event::Finished(_), _) => {}
                }
            }
            Record::Run { .. } => self.unknown += 1,
        }
        Ok(())
    }

    fn into_recovered(mut self, facts: RunFacts) -> Recovered {
        let mut warn = |code, message| self.warnings.push(Warning::new(code, message));
        warn(
            "recovered",
            "this run did not end; the figures are those of its journal, up to its last whole second. What was \
             judged at the end (the generator's health, where the time went) is missing."
                .to_owned(),
        );
        if self.damaged > 0 {
            warn(
                "journal-damaged",
                format!("{} lines of the journal were torn or altered and left out", self.damaged),
            );
        }
        if self.unknown > 0 {
            let message =
                format!("{} lines of the journal are of a kind this version does not know", self.unknown);
            warn("journal-unknown", message);
        }
        let binaries: Vec<RecoveredBinary> = self.binaries.into_values().collect();
        let runs: Vec<BinaryRun<'_>> = binaries
            .iter()
            .map(|RecoveredBinary { binary, stats }| BinaryRun {
                package: &binary.package,
                scenarios: &binary.scenarios,
                stats,
            })
            .collect();
        let summary = summarise(Inputs {
            facts: &facts,
            binaries: &runs,
            joined: Joined::default(),
            attribution: Vec::new(),
            health: Health { valid: false, warnings: self.warnings, ..Health::default() },
            outcomes: vec![Outcome::Interrupted],
        });
        Recovered { facts, binaries, damaged_lines: self.damaged, summary }
    }
}
