//! `spans.otlp.jsonl`: kept traces as lines of OTLP JSON, up to a limit; what does not fit is counted.

use std::io::{self, Write};
use std::path::Path;

use crate::sys::fs::WholeFile;

/// How large the file becomes at most.
pub(crate) const SPANS_LIMIT: u64 = 256 << 20;

/// What a [`SpanFile`] took and what it refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SpanFileCounts {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    pub(crate) refused_lines: u64,
    pub(crate) refused_bytes: u64,
}

/// A file of lines that never grows beyond its limit. It stands under its name when it is finished.
#[derive(Debug)]
pub(crate) struct SpanFile {
    file: WholeFile,
    limit: u64,
    counts: SpanFileCounts,
}

impl SpanFile {
    pub(super) fn create(path: &Path, limit: u64) -> io::Result<Self> {
        Ok(Self { file: WholeFile::create(path)?, limit, counts: SpanFileCounts::default() })
    }

    /// Writes one line (given without its line feed), or counts it as refused where it would pass the limit.
    pub(crate) fn line(&mut self, json: &[u8]) -> io::Result<()> {
        let bytes = json.len() as u64 + 1;
        if self.counts.bytes + bytes > self.limit {
            self.counts.refused_lines += 1;
            self.counts.refused_bytes += bytes;
            return Ok(());
        }
        self.file.write_all(json)?;
        self.file.write_all(b"\n")?;
        self.counts.lines += 1;
        self.counts.bytes += bytes;
        Ok(())
    }

    pub(crate) fn finish(self) -> io::Result<SpanFileCounts> {
        self.file.finish()?;
        Ok(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_smaller_ones_still_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spans.otlp.jsonl");
        let mut file = SpanFile::create(&path, 12).unwrap();
        for line in ["12345", "1234567", "1234", "1"] {
            file.line(line.as_bytes()).unwrap();
        }
        assert!(!path.exists(), "unfinished files have no name");
        let counts = file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "12345\n1234\n");
        let want = SpanFileCounts { lines: 2, bytes: 11, refused_lines: 2, refused_bytes: 10 };
        assert_eq!(counts, want);
    }
}
