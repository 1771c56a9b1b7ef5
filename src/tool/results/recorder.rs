//! Takes the events of a run as they happen and puts them on disk.

use std::borrow::Cow;

use super::histograms::HistogramLog;
use super::journal::{Binary, Journal, Record};
use super::{ResultsError, RunFolder};
use crate::model::event::Event;
use crate::model::summarise::RunFacts;

/// Writes `journal` and `histograms.hlog` of a run that is going on.
///
/// What [`Recorder::event`] was given outlives this process, however it ends: each call hands its line to the operating
/// system before it returns.
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: RunFolder,
    journal: Journal,
    histograms: HistogramLog,
    /// How many binaries were announced; events belong to the last one.
    binaries: usize,
}

impl Recorder {
    /// Begins the journal of a new run with what is known of it.
    pub(crate) fn create(folder: &RunFolder, facts: &RunFacts) -> Result<Self, ResultsError> {
        let (journal_path, histograms_path) = (folder.journal(), folder.histograms());
        let mut journal =
            Journal::create(&journal_path).map_err(ResultsError::io("create", &journal_path))?;
        journal.append(&Record::run(facts)).map_err(ResultsError::io("write", &journal_path))?;
        let histograms = HistogramLog::create(&histograms_path, facts.started_unix_ns)
            .map_err(ResultsError::io("create", &histograms_path))?;
        Ok(Self { folder: folder.clone(), journal, histograms, binaries: 0 })
    }

    /// Says that the events from here on are those of `binary`.
    pub(crate) fn binary(&mut self, binary: &Binary) -> Result<(), ResultsError> {
        let record = Record::Binary { index: self.binaries, binary: Cow::Borrowed(binary) };
        self.append(&record)?;
        self.binaries += 1;
        Ok(())
    }

    /// Keeps an event of the binary announced last. After an error the next event is kept again.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), ResultsError> {
        let binary = self.binaries.saturating_sub(1);
        self.append(&Record::Event { binary, event: Cow::Borrowed(event) })?;
        self.histograms.event(event).map_err(ResultsError::io("write", &self.folder.histograms()))
    }

    /// Syncs both files; `histograms.hlog` now stands under its name.
    pub(crate) fn finish(self) -> Result<(), ResultsError> {
        self.journal.sync().map_err(ResultsError::io("write", &self.folder.journal()))?;
        self.histograms.finish().map_err(ResultsError::io("write", &self.folder.histograms()))
    }

    fn append(&mut self, record: &Record<'_>) -> Result<(), ResultsError> {
        self.journal.append(record).map_err(ResultsError::io("write", &self.folder.journal()))
    }
}
