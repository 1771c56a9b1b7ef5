//! The journal: what happened in a run, appended as it happens, one line a record.
//!
//! A line is the CRC-32 of the record in eight hexadecimal digits, a space, the record as JSON, a line feed. Each line
//! stands for itself: one that is torn or damaged is recognised by its checksum and costs itself alone.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::event::Event;
use crate::model::id::RunId;
use crate::model::plan::ScenarioInfo;
use crate::model::summarise::RunFacts;
use crate::sys::fs;

/// The name and number of the format; the first record says it.
pub(crate) const JOURNAL_SCHEMA: &str = "loadtest.journal/1";

/// A longer line is damage, not a record: with 500 steps, each with its histogram, an interval stays far below.
const LINE_LIMIT: u64 = 64 << 20;

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Record<'a> {
    Run {
        schema: String,
        id: RunId,
        started_unix_ns: u64,
        commit: Option<String>,
        dirty: Option<bool>,
        base_url: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    },
    /// A scenario binary is about to run; events name it by `index`.
    Binary { index: usize, binary: Cow<'a, Binary> },
    /// What the binary told.
    Event { binary: usize, event: Cow<'a, Event> },
}

/// A scenario binary, and the scenarios of it that run under the load given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Binary {
    pub(crate) package: String,
    /// The cargo target's name.
    pub(crate) target: String,
    pub(crate) scenarios: Vec<ScenarioInfo>,
}

impl Record<'_> {
    pub(super) fn run(facts: &RunFacts) -> Self {
        let RunFacts { id, started_unix_ns, commit, dirty, base_url, seed } = facts.clone();
        Self::Run { schema: JOURNAL_SCHEMA.to_owned(), id, started_unix_ns, commit, dirty, base_url, seed }
    }
}

/// The journal of a run that is going on.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// The last write failed and may have left part of a line.
    torn: bool,
}

impl Journal {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = fs::create_private(path)?;
        // Who has it, lives: a journal that is locked is not to be recovered yet.
        fs::lock(&file);
        Ok(Self { file, torn: false })
    }

    /// Hands the line to the operating system at once, so that it outlives this process.
    pub(super) fn append(&mut self, record: &Record<'_>) -> io::Result<()> {
        let mut line = encode(record)?;
        if self.torn {
            line.insert(0, b'\n');
        }
        let written = self.file.write_all(&line);
        self.torn = written.is_err();
        written
    }

    /// Waits until the disk has it all.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn encode(record: &Record<'_>) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(record)?;
    let mut line = format!("{:08x} ", checksum(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A line as it was read back.
#[derive(Debug)]
pub(super) enum Line {
    Record(Box<Record<'static>>),
    /// Whole, by its checksum, but a record that this version does not know.
    Unknown,
    /// Torn or altered.
    Damaged,
}

/// Reads the lines of a journal one by one, whatever is in the file.
pub(super) struct Lines<R> {
    input: R,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input }
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        self.input.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(decode(&line))),
            // No line feed: the end of the file, or of what a line may hold. The checksum says which.
            Some(last) => {
                line.push(last);
                self.skip_to_line_feed()?;
                Ok(Some(decode(&line)))
            }
        }
    }

    fn skip_to_line_feed(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.input.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}

fn decode(line: &[u8]) -> Line {
    let Some((sum, json)) = line.split_at_checked(9) else { return Line::Damaged };
    let sum = sum.strip_suffix(b" ").and_then(|hex| std::str::from_utf8(hex).ok());
    match sum.and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
        Some(sum) if sum == checksum(json) => {
            serde_json::from_slice(json).map_or(Line::Unknown, |record| Line::Record(Box::new(record)))
        }
        _ => Line::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Warning;

    fn warning(message: &str) -> Record<'static> {
        Record::Event { binary: 0, event: Cow::Owned(Event::Warning(Warning::new("w", message))) }
    }

    /// `r` a record, `u` unknown, `d` damaged.
    fn read(bytes: &[u8]) -> String {
        let mut lines = Lines::new(bytes);
        std::iter::from_fn(|| lines.next().unwrap())
            .map(|line| match line {
                Line::Record(_) => 'r',
                Line::Unknown => 'u',
                Line::Damaged => 'd',
            })
            .collect()
    }

    #[test]
    fn a_line_that_is_torn_altered_or_foreign_costs_itself_alone() {
        let line = encode(&warning("a, b\nc")).unwrap();
        let [mut altered, mut foreign] = [line.clone(), line.clone()];
        altered[20] ^= 1;
        foreign.splice(9..foreign.len() - 1, *b"{}");
        let sum = format!("{:08x}", checksum(b"{}"));
        foreign[..8].copy_from_slice(sum.as_bytes());
        for (middle, want) in [
            (line.as_slice(), "rrr"),
            (&altered, "rdr"),
            (&foreign, "rur"),
            (b"\n", "rdr"),
            (b"\xff\xfe\n", "rdr"),
            (b"", "rr"),
        ] {
            assert_eq!(read(&[&line, middle, &line].concat()), want, "{}", String::from_utf8_lossy(middle));
        }
        assert_eq!(read(&[&line, &line[..line.len() - 1]].concat()), "rr", "only the line feed is missing");
        assert_eq!(read(&[&line, &line[..line.len() - 2]].concat()), "rd");
        assert_eq!(read(b""), "");
    }

    #[test]
    fn a_line_after_a_failed_write_stands_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(&warning("first")).unwrap();
        // What a full disk leaves behind.
        journal.file.write_all(b"12345678 {\"ev").unwrap();
        journal.torn = true;
        journal.append(&warning("second")).unwrap();
        journal.append(&warning("third")).unwrap();
        assert_eq!(read(&std::fs::read(&path).unwrap()), "rdrr");
    }
}
