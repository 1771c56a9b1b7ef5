//! The output of services: copied to a file without the configured secrets, and its last lines.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::model::secret::Secrets;

/// A longer line is written in pieces.
const LONGEST_LINE: usize = 64 * 1024;
/// What one service may fill the disk with; the rest is read and dropped.
const LARGEST_LOG: u64 = 256 * 1024 * 1024;
const CHUNK: usize = 32 * 1024;

/// Copies `output` to `log` until its end, whatever happens to `log`: a service must never wait for its reader.
/// Calls `seen` when a line contains `wanted`.
pub(crate) fn copy(
    mut output: impl Read,
    log: impl Write,
    secrets: &Secrets,
    wanted: Option<&str>,
    seen: impl FnOnce(),
) {
    let mut log = Limited { log, left: LARGEST_LOG };
    let mut waiting = wanted.map(|wanted| (wanted, seen));
    let mut chunk = vec![0; CHUNK];
    let mut pending = Vec::new();
    loop {
        let read = match output.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        pending.extend_from_slice(&chunk[..read]);
        let whole = match pending.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => newline + 1,
            None if pending.len() > LONGEST_LINE => pending.len(),
            None => continue,
        };
        let text = String::from_utf8_lossy(&pending[..whole]);
        if let Some((_, seen)) = waiting.take_if(|(wanted, _)| text.contains(*wanted)) {
            seen();
        }
        let masked = secrets.mask(text);
        // The end of a line that was cut may be the begin of a secret, so it waits for what follows.
        let kept = if masked.ends_with('\n') { 0 } else { secrets.longest().saturating_sub(1) };
        let cut = floor_boundary(&masked, masked.len().saturating_sub(kept));
        log.write(&masked.as_bytes()[..cut]);
        let rest = [&masked.as_bytes()[cut..], &pending[whole..]].concat();
        pending = rest;
    }
    let text = String::from_utf8_lossy(&pending);
    if let Some((_, seen)) = waiting.take_if(|(wanted, _)| text.contains(*wanted)) {
        seen();
    }
    log.write(secrets.mask(text).as_bytes());
}

/// The last character boundary of `text` at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

struct Limited<W> {
    log: W,
    left: u64,
}

impl<W: Write> Limited<W> {
    fn write(&mut self, bytes: &[u8]) {
        if self.left == 0 {
            return;
        }
        let written = if (bytes.len() as u64) < self.left {
            self.left -= bytes.len() as u64;
            self.log.write_all(bytes)
        } else {
            self.left = 0;
            self.log.write_all(b"\n(the log has reached its limit; later lines are not kept)\n")
        };
        if written.is_err() {
            self.left = 0;
        }
    }
}

/// The last lines of the log at `path`, at most `count`; none where it cannot be read.
pub(crate) fn last_lines(path: &Path, count: usize) -> Vec<String> {
    let tail = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_LINE as u64)))?;
        let mut tail = Vec::new();
        file.take(LONGEST_LINE as u64).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = tail().unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::model::secret::MASK;

    /// Hands out its chunks one by one, as a pipe does.
    struct Chunks(std::vec::IntoIter<Vec<u8>>);

    impl Read for Chunks {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let chunk = self.0.by_ref().find(|chunk| !chunk.is_empty()).unwrap_or_default();
            buffer[..chunk.len()].copy_from_slice(&chunk);
            Ok(chunk.len())
        }
    }

    fn copied(chunks: &[&[u8]], secrets: &[&str], wanted: Option<&str>) -> (String, bool) {
        let chunks: Vec<_> = chunks.iter().map(|chunk| chunk.to_vec()).collect();
        let mut log = Vec::new();
        let seen = Cell::new(false);
        let see = || seen.set(true);
        copy(Chunks(chunks.into_iter()), &mut log, &secrets.iter().copied().collect(), wanted, see);
        (String::from_utf8(log).unwrap(), seen.get())
    }

    #[test]
    fn output_is_kept_with_or_without_a_last_newline() {
        assert_eq!(copied(&[b"a\nb", b"c\nd"], &[], None).0, "a\nbc\nd");
        assert_eq!(copied(&[], &[], None).0, "");
        assert_eq!(copied(&[b"\xff\n"], &[], None).0, "\u{fffd}\n");
    }

    #[test]
    fn secrets_are_masked_also_across_reads() {
        let secrets = ["hunter2", "hunter22", "two\nlines", "", " "];
        assert_eq!(copied(&[b"key=hun", b"ter2;\n"], &secrets, None).0, "key=***;\n");
        assert_eq!(copied(&[b"hunter22\n"], &secrets, None).0, "***\n");
        assert_eq!(copied(&[b"two\nlines\n"], &secrets, None).0, "***\n***\n");
        assert_eq!(copied(&[b"a b\n"], &secrets, None).0, "a b\n");
    }

    #[test]
    fn a_wanted_text_is_seen_in_a_line_and_at_the_end() {
        assert!(copied(&[b"now lis", b"tening\n"], &[], Some("listening")).1);
        assert!(copied(&[b"now lis", b"tening"], &[], Some("listening")).1);
        assert!(copied(&[b"token=s3cret ok\n"], &["s3cret"], Some("s3cret ok")).1);
        assert!(!copied(&[b"lis\ntening\n"], &[], Some("listening")).1);
    }

    #[test]
    fn a_long_line_is_written_before_its_end_and_masked_where_it_was_cut() {
        // The first read after which the line is too long.
        let cut = (LONGEST_LINE / CHUNK + 1) * CHUNK;
        for before in cut - 20..cut + 20 {
            let line = [vec![b'x'; before], b"hunter2".to_vec(), vec![b'y'; 70_000]].concat();
            let chunks: Vec<&[u8]> = line.chunks(CHUNK).collect();
            let log = copied(&chunks, &["hunter2"], None).0;
            assert_eq!(log, format!("{}***{}", "x".repeat(before), "y".repeat(70_000)));
        }
    }

    proptest! {
        #[test]
        fn no_secret_survives_any_way_of_reading(pieces in prop::collection::vec("(canary|[canry\n])", 0..60), size in 1_usize..9) {
            let output = pieces.concat();
            let chunks: Vec<&[u8]> = output.as_bytes().chunks(size).collect();
            let log = copied(&chunks, &["canary"], None).0;
            prop_assert_eq!(log, output.replace("canary", MASK));
        }
    }

    #[test]
    fn a_log_stops_growing_at_its_limit_and_when_the_disk_is_full() {
        let mut log = Limited { log: Vec::new(), left: 4 };
        for line in ["a\n", "b\n", "c\n"] {
            log.write(line.as_bytes());
        }
        assert_eq!(log.log, b"a\n\n(the log has reached its limit; later lines are not kept)\n");

        let mut full = Limited { log: &mut [0; 1][..], left: 100 };
        full.write(b"too long");
        assert_eq!(full.left, 0);
    }

    #[test]
    fn the_last_lines_are_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines: Vec<String> = (0..20_000).map(|n| format!("line {n}")).collect();
        file.as_file().write_all(lines.join("\n").as_bytes()).unwrap();
        assert_eq!(last_lines(file.path(), 2), ["line 19998", "line 19999"]);
        assert_eq!(last_lines(Path::new("/nonexistent/log"), 2), [""; 0]);
    }
}
