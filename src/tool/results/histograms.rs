//! `histograms.hlog`: the load's latencies as a standard HdrHistogram interval log, which other tools read.
//!
//! One line an interval and step, tagged `scenario/step`, both percent-encoded, so that the slash between them is the
//! only one. Values are microseconds. A log holds what was seen to its end: durations that were cut off are in the
//! journal alone.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::model::event::Event;
use crate::model::stats::{Interval, Phase};
use crate::sys::fs::WholeFile;

/// Letters, digits and what no reader of such logs gives a meaning to.
const TAG: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The log of a run that is going on. It stands under its name when it is finished.
#[derive(Debug)]
pub(super) struct HistogramLog {
    file: WholeFile,
    run_started_ns: u64,
    /// From the start of the run to the start of the load phase that goes on.
    phase_start: Duration,
}

impl HistogramLog {
    pub(super) fn create(path: &Path, run_started_ns: u64) -> io::Result<Self> {
        let mut file = WholeFile::create(path)?;
        let started = Duration::from_nanos(run_started_ns).as_secs_f64();
        // Both times, because readers differ in which of them the intervals are counted from.
        write!(
            file,
            "#[Histogram log format version 1.3]\n\
             #[Latencies in microseconds, by cargo-loadtest]\n\
             #[StartTime: {started:.3} (seconds since epoch)]\n\
             #[BaseTime: {started:.3} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_CompressedHistogram\"\n"
        )?;
        Ok(Self { file, run_started_ns, phase_start: Duration::ZERO })
    }

    /// Takes what concerns the log: where load phases begin, and their intervals.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::PhaseStarted { phase: Phase::Load, unix_ns, .. } => {
                self.phase_start = Duration::from_nanos(unix_ns.saturating_sub(self.run_started_ns));
                Ok(())
            }
            Event::Interval(interval) if interval.phase == Phase::Load => self.interval(interval),
            _ => Ok(()),
        }
    }

    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let start = self.phase_start + Duration::from_millis(interval.start_ms);
        let length = Duration::from_millis(interval.end_ms.saturating_sub(interval.start_ms));
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut self.file, &mut serializer)?;
        for (scenario, stats) in &interval.scenarios {
            for (key, step) in &stats.steps {
                if step.latency.complete_count() == 0 {
                    continue;
                }
                let tag = tag(scenario, &key.name);
                log.write_histogram(step.latency.histogram(), start, length, Tag::new(&tag)).map_err(
                    |error| match error {
                        IntervalLogWriterError::IoError(error) => error,
                        IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
                    },
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.file.finish()
    }
}

fn tag(scenario: &str, step: &str) -> String {
    let encode = |text| percent_encoding::utf8_percent_encode(text, TAG);
    format!("{}/{}", encode(scenario), encode(step))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::model::sample;

    #[test]
    fn other_readers_find_each_interval_and_step_with_its_time_tag_and_histogram() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("histograms.hlog");
        let started = sample::facts().started_unix_ns;
        let mut log = HistogramLog::create(&path, started).unwrap();
        for (phase, unix_ns) in [(Phase::Reference, started), (Phase::Load, started + 7_500_000_000)] {
            log.event(&Event::PhaseStarted { phase, scenarios: Vec::new(), unix_ns }).unwrap();
            for interval in sample::intervals().into_iter().filter(|interval| interval.phase == phase) {
                log.event(&Event::Interval(interval)).unwrap();
            }
        }
        assert!(!path.exists(), "an unfinished log has no name");
        log.finish().unwrap();

        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"#[Histogram log format version 1.3]\n"));
        let mut intervals = Vec::new();
        let mut times = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            match entry.unwrap() {
                LogEntry::Interval(interval) => intervals.push(interval),
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => times.push(time.as_secs()),
            }
        }
        assert_eq!(times, [started / 1_000_000_000; 2]);
        assert_eq!(intervals.len(), 120 * 3, "the reference is not in it");
        assert_eq!(intervals[3].start_timestamp(), Duration::from_millis(8_500));
        assert_eq!(intervals[3].duration(), Duration::from_secs(1));
        let stats = sample::stats();
        for (key, step) in &stats.load[sample::SCENARIO].steps {
            let tag = tag(sample::SCENARIO, &key.name);
            let mut merged = Histogram::<u64>::new(3).unwrap();
            for interval in intervals.iter().filter(|interval| *interval.tag().unwrap() == *tag) {
                let encoded = interval.encoded_histogram();
                let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
                merged
                    .add(Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).unwrap())
                    .unwrap();
            }
            assert_eq!(merged, *step.latency.histogram());
        }
    }

    #[test]
    fn a_tag_has_one_slash_and_nothing_that_a_log_gives_a_meaning() {
        assert_eq!(tag("auth", "GET /users/{id}, x"), "auth/GET%20%2Fusers%2F%7Bid%7D%2C%20x");
        let hostile = tag("a/b\n", "c\r,=\u{0}ü");
        assert!(
            hostile.matches('/').count() == 1 && Tag::new(&hostile).is_some() && hostile.is_ascii(),
            "{hostile}"
        );
    }
}
