//! Makes a summary of a run that was killed, from its journal.

use std::collections::BTreeMap;
use std::io::{self, BufReader};

use super::histograms::HistogramLog;
use super::journal::{Binary, JOURNAL_SCHEMA, Line, Lines, Record};
use super::{ResultsError, RunFolder};
use crate::model::event::{Event, Warning};
use crate::model::health::Signs;
use crate::model::stats::RunStats;
use crate::model::summarise::{BinaryRun, Inputs, Joined, RunFacts, summarise};
use crate::model::summary::{Health, Summary};
use crate::model::verdict::Outcome;
use crate::sys::fs;
use crate::tool::report::json;

/// What the journal of a run tells.
#[derive(Debug)]
struct Recovered {
    #[cfg(test)]
    facts: RunFacts,
    /// In the order in which they ran.
    #[cfg(test)]
    binaries: Vec<RecoveredBinary>,
    /// Lines that were torn or altered, and left out.
    #[cfg(test)]
    damaged_lines: u64,
    summary: Summary,
}

/// What one scenario binary had measured.
#[derive(Debug)]
struct RecoveredBinary {
    binary: Binary,
    stats: RunStats,
}

/// What is gathered line by line.
#[derive(Default)]
struct Gathered {
    binaries: BTreeMap<usize, RecoveredBinary>,
    warnings: Vec<Warning>,
    damaged: u64,
    unknown: u64,
}

/// The summary of what a killed run had measured: its verdict is "interrupted", and it is not known to be valid, since
/// the generator's health is not journaled. The folder is completed: it gets `summary.json`, and `histograms.hlog` where
/// the run left none, and loses what only a run that goes on needs.
///
/// # Errors
/// Where the run goes on, there is no journal, or its first line does not say which run it is of. Damage after that is
/// left out, and the summary warns of it.
pub(crate) fn recover(folder: &RunFolder) -> Result<Summary, ResultsError> {
    let path = folder.journal();
    let journal = fs::open(&path).map_err(ResultsError::io("open", &path))?;
    if !fs::lock(&journal) {
        return Err(ResultsError::GoesOn { run: folder.id().clone() });
    }
    let summary = read(folder)?.summary;
    folder.write("summary.json", &json::summary(&summary))?;
    folder.tidy()?;
    Ok(summary)
}

fn read(folder: &RunFolder) -> Result<Recovered, ResultsError> {
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
        Record::Run { schema, id, started_unix_ns, commit, dirty, base_url, seed }
            if schema == JOURNAL_SCHEMA =>
        {
            RunFacts { id, started_unix_ns, commit, dirty, base_url, seed }
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
                    (Event::Interval(_) | Event::Aborted(_), None) => self.damaged += 1,
                    (Event::Aborted(aborted), Some(binary)) => binary.stats.aborted.push(aborted),
                    (Event::Warning(warning), _) => self.warnings.push(warning),
                    (Event::Failed(failure), _) => {
                        self.warnings.push(Warning::new("failed", failure.message));
                    }
                    (Event::Listing(_) | Event::PhaseStarted { .. } | Event::Finished(_), _) => {}
                }
            }
            Record::Run { .. } => self.unknown += 1,
        }
        Ok(())
    }

    #[cfg_attr(not(test), expect(clippy::needless_pass_by_value, reason = "tests look at it afterwards"))]
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
        let nothing = Signs::default();
        let runs: Vec<BinaryRun<'_>> = binaries
            .iter()
            .map(|RecoveredBinary { binary, stats }| BinaryRun {
                package: &binary.package,
                scenarios: &binary.scenarios,
                stats,
                // They come with the end.
                signs: &nothing,
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
        Recovered {
            #[cfg(test)]
            facts,
            #[cfg(test)]
            binaries,
            #[cfg(test)]
            damaged_lines: self.damaged,
            summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::Recorder;
    use super::*;
    use crate::model::event::Finished;
    use crate::model::sample;
    use crate::model::stats::{Interval, Phase, ScenarioStats, StepKey, StepKind};
    use crate::model::verdict::Verdict;

    fn binary(package: &str) -> Binary {
        Binary { package: package.to_owned(), target: "t".to_owned(), scenarios: sample::infos() }
    }

    fn folder(target: &Path) -> RunFolder {
        RunFolder::create(target, &sample::facts().id, 50).unwrap().0
    }

    /// Records binaries with their intervals, and leaves as a killed process does: without finishing.
    fn record(target: &Path, binaries: &[Vec<Interval>]) -> RunFolder {
        let folder = folder(target);
        let mut recorder = Recorder::create(&folder, &sample::facts()).unwrap();
        for (at, intervals) in binaries.iter().enumerate() {
            recorder.binary(&binary(&format!("package-{at}"))).unwrap();
            for interval in intervals {
                recorder.event(&Event::Interval(interval.clone())).unwrap();
            }
        }
        folder
    }

    /// Everything of a scenario that is counted, as JSON (histograms included).
    fn totals(stats: &RunStats) -> String {
        let all = [&stats.reference, &stats.load].map(|part| serde_json::to_string(part).unwrap());
        format!("{} {} {:?}", all[0], all[1], stats.load_time)
    }

    fn accumulated(intervals: &[Interval]) -> String {
        let mut stats = RunStats::default();
        for interval in intervals {
            stats.add(interval);
        }
        totals(&stats)
    }

    fn codes(recovered: &Recovered) -> Vec<&str> {
        recovered.summary.health.warnings.iter().map(|warning| warning.code.as_str()).collect()
    }

    #[test]
    fn a_killed_run_has_its_figures_and_says_what_it_is() {
        let target = tempfile::tempdir().unwrap();
        let folder = record(target.path(), &[sample::intervals()]);
        let recovered = read(&folder).unwrap();
        assert_eq!(recovered.facts, sample::facts());
        assert_eq!(recovered.binaries[0].binary, binary("package-0"));
        let (summary, whole) = (&recovered.summary, sample::summary());
        assert_eq!((summary.verdict, summary.exit_code), (Verdict::Interrupted, 130));
        assert_eq!(summary.totals, whole.totals);
        assert_eq!(summary.steps.len(), whole.steps.len());
        assert_eq!(summary.steps[2].latency_ms, whole.steps[2].latency_ms);
        assert_eq!(summary.thresholds[0].observed, whole.thresholds[0].observed);
        assert!(!summary.health.valid);
        assert_eq!((codes(&recovered), recovered.damaged_lines), (vec!["recovered"], 0));
        let log = std::fs::read_to_string(folder.path().join("histograms.hlog")).unwrap();
        assert_eq!(
            log.lines().filter(|line| line.starts_with("Tag=")).count(),
            360,
            "the log is made up for"
        );
    }

    #[test]
    fn the_folder_of_a_killed_run_is_completed_and_then_tells_the_same_without_its_journal() {
        let target = tempfile::tempdir().unwrap();
        let folder = record(target.path(), &[sample::intervals()]);
        let [data, bin] = ["data", "bin"].map(|name| folder.path().join(name));
        for left in [&data, &bin] {
            std::fs::create_dir(left).unwrap();
            fs::write_whole(&left.join("users.db"), b"x").unwrap();
        }
        // As a killed process leaves it.
        std::mem::forget(folder.spans().unwrap());
        assert!(fs::names(folder.path()).unwrap().iter().any(|name| name.starts_with(".writing-")));
        let summary = recover(&folder).unwrap();
        let mut names = fs::names(folder.path()).unwrap();
        names.sort();
        assert_eq!(names, ["histograms.hlog", "journal", "services", "summary.json"]);
        assert_eq!(folder.summary().unwrap(), summary);
        assert_eq!(summary.verdict, Verdict::Interrupted);
    }

    #[cfg(unix)]
    #[test]
    fn a_run_that_goes_on_is_left_alone() {
        let target = tempfile::tempdir().unwrap();
        let folder = folder(target.path());
        let recorder = Recorder::create(&folder, &sample::facts()).unwrap();
        let data = folder.data().unwrap();
        let error = recover(&folder).unwrap_err();
        assert!(error.to_string().contains("still going on"), "{error}");
        assert!(data.exists() && !folder.path().join("summary.json").exists());
        drop(recorder);
        recover(&folder).unwrap();
        assert!(!data.exists());
    }

    #[test]
    fn warnings_and_failures_that_were_told_are_told_again() {
        let target = tempfile::tempdir().unwrap();
        let folder = folder(target.path());
        let mut recorder = Recorder::create(&folder, &sample::facts()).unwrap();
        recorder.binary(&binary("p")).unwrap();
        let failure = crate::model::event::Failure {
            kind: crate::model::event::FailureKind::Run,
            message: "setup: no database".to_owned(),
        };
        for event in [
            Event::Warning(Warning::new("steps-limit", "too many names")),
            Event::Failed(failure),
            Event::Finished(Finished::default()),
        ] {
            recorder.event(&event).unwrap();
        }
        recorder.finish().unwrap();
        let recovered = read(&folder).unwrap();
        assert_eq!(codes(&recovered), ["steps-limit", "failed", "recovered"]);
    }

    #[test]
    fn a_damaged_line_in_the_middle_costs_itself_alone() {
        let target = tempfile::tempdir().unwrap();
        let intervals = sample::intervals();
        let folder = record(target.path(), std::slice::from_ref(&intervals));
        let mut bytes = std::fs::read(folder.journal()).unwrap();
        // Lines: run, binary, reference, then the load's; the third of these is altered.
        let starts: Vec<usize> = (0..bytes.len()).filter(|at| *at == 0 || bytes[at - 1] == b'\n').collect();
        bytes[starts[5] + 30] ^= 0x20;
        fs::write_whole(&folder.journal(), &bytes).unwrap();
        let recovered = read(&folder).unwrap();
        let without: Vec<Interval> = intervals
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 3)
            .map(|(_, interval)| interval.clone())
            .collect();
        assert_eq!(totals(&recovered.binaries[0].stats), accumulated(&without));
        assert_eq!((recovered.damaged_lines, codes(&recovered)), (1, vec!["recovered", "journal-damaged"]));

        // Without the line that names the binary, its intervals have no place, and that is said.
        bytes[starts[1] + 30] ^= 0x20;
        fs::write_whole(&folder.journal(), &bytes).unwrap();
        let recovered = read(&folder).unwrap();
        assert!(recovered.binaries.is_empty());
        assert_eq!(recovered.damaged_lines, 2 + 120);
    }

    #[test]
    fn a_journal_cut_at_any_byte_of_its_last_lines_loses_the_torn_line_alone() {
        let target = tempfile::tempdir().unwrap();
        let samples = |n: u64| (0..n).map(|n| (n % 2 == 0, 0, n * 1_000_000)).collect();
        let intervals = build((0..4).map(|n| (true, 1000, samples(n))).collect());
        let folder = record(target.path(), std::slice::from_ref(&intervals));
        let bytes = std::fs::read(folder.journal()).unwrap();
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        let want: Vec<String> = (0..=4).map(|whole| accumulated(&intervals[..whole])).collect();
        // The last two lines, and the end of the one before.
        let journal = std::fs::OpenOptions::new().write(true).open(folder.journal()).unwrap();
        for cut in (ends[3]..=bytes.len()).rev() {
            journal.set_len(cut as u64).unwrap();
            let recovered = read(&folder).unwrap();
            // A line is whole with its last character; the line feed may be missing.
            let whole = ends[2..].iter().filter(|end| cut >= **end).count();
            assert_eq!(totals(&recovered.binaries[0].stats), want[whole], "cut at {cut}");
            let torn = ends.iter().all(|end| cut != *end && cut != *end + 1);
            assert_eq!(recovered.damaged_lines, u64::from(torn), "cut at {cut}");
            assert_eq!(recovered.summary.verdict, Verdict::Interrupted);
        }
    }

    #[test]
    fn what_is_no_journal_is_refused_with_the_reason() {
        let target = tempfile::tempdir().unwrap();
        let folder = folder(target.path());
        let error = |bytes: &[u8]| {
            fs::write_whole(&folder.journal(), bytes).unwrap();
            read(&folder).unwrap_err().to_string()
        };
        assert!(read(&folder).unwrap_err().to_string().contains("cannot open"));
        for bytes in [&b""[..], b"\n", b"not a journal\n", &[0xff; 300]] {
            assert!(error(bytes).contains("its first line is missing or damaged"), "{}", error(bytes));
        }
    }

    /// Of the load or not, its length, its samples: complete or not, which step, how long.
    type Spec = (bool, u64, Vec<(bool, u8, u64)>);

    fn interval() -> impl Strategy<Value = Spec> {
        let samples = proptest::collection::vec((any::<bool>(), 0_u8..3, 0_u64..70_000_000_000), 0..12);
        (any::<bool>(), 1_u64..3000, samples)
    }

    fn build(specs: Vec<Spec>) -> Vec<Interval> {
        let mut at = 0;
        let mut intervals = Vec::new();
        for (load, length, samples) in specs {
            let mut stats = ScenarioStats { vus: samples.len() as u32, ..ScenarioStats::default() };
            for (complete, name, nanos) in samples {
                let time = std::time::Duration::from_nanos(nanos);
                let kind = if name == 2 { StepKind::Step } else { StepKind::Request };
                let step =
                    stats.steps.entry(StepKey { kind, name: format!("step \"{name}\"\n") }).or_default();
                if complete {
                    step.count += 1;
                    *step.status.entry(200 + u16::from(name)).or_default() += 1;
                    step.latency.record(time);
                    stats.iteration.record(time);
                } else {
                    step.interrupted += 1;
                    step.latency.record_censored(time);
                    stats.errors.add(&format!("error {name}"), 1);
                }
                stats.iterations += 1;
                stats.vu_ns += nanos;
            }
            intervals.push(Interval {
                phase: if load { Phase::Load } else { Phase::Reference },
                start_ms: at,
                end_ms: at + length,
                scenarios: [("s/ü".to_owned(), stats)].into(),
            });
            at += length;
        }
        intervals
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_was_recorded_is_recovered(
            first in proptest::collection::vec(interval(), 0..5),
            second in proptest::collection::vec(interval(), 0..5),
        ) {
            let target = tempfile::tempdir().unwrap();
            let binaries = [build(first), build(second)];
            let recovered = read(&record(target.path(), &binaries)).unwrap();
            prop_assert_eq!(recovered.binaries.len(), 2);
            for (at, intervals) in binaries.iter().enumerate() {
                prop_assert_eq!(totals(&recovered.binaries[at].stats), accumulated(intervals));
            }
        }
    }
}
