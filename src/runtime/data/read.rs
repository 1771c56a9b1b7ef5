//! CSV and JSON to rows; what is wrong is told with its file, line and column.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

/// Reads the rows of a file: its name for messages, and what is in it.
pub(super) type Read<T> = fn(&str, &[u8]) -> Result<Vec<T>, String>;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn csv<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<Vec<T>, String> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(bytes);
    let columns = reader
        .headers()
        .cloned()
        .map_err(|error| csv_error(name, bytes, &csv::StringRecord::new(), &error))?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = columns.iter().find(|column| !seen.insert(*column)) {
        return Err(format!("{name}:1: two columns are called `{twice}`; give each a name of its own"));
    }
    reader.deserialize().map(|row| row.map_err(|error| csv_error(name, bytes, &columns, &error))).collect()
}

fn csv_error(name: &str, bytes: &[u8], columns: &csv::StringRecord, error: &csv::Error) -> String {
    let line = error.position().map_or_else(String::new, |at| {
        // The position is where the row before has ended; empty lines in between are no rows.
        let rest = usize::try_from(at.byte()).ok().and_then(|byte| bytes.get(byte..)).unwrap_or_default();
        let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        format!(":{}", at.line() + empty.filter(|byte| **byte == b'\n').count() as u64)
    });
    let what = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|at| columns.get(at as usize));
            let known = || columns.iter().collect::<Vec<_>>().join(", ");
            column.map_or_else(
                || format!("{}; the columns are: {}", err.kind(), known()),
                |column| format!("column `{column}`: {}", err.kind()),
            )
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} fields, but there are {expected_len} columns")
        }
        csv::ErrorKind::Utf8 { err, .. } => match columns.get(err.field()) {
            Some(column) => format!("column `{column}` is not UTF-8"),
            None => "not UTF-8".to_owned(),
        },
        _ => error.to_string(),
    };
    format!("{name}{line}: {what}")
}

pub(super) fn json<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<Vec<T>, String> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let is_array = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let rows = if is_array {
        serde_json::from_slice(bytes)
    } else {
        serde_json::Deserializer::from_slice(bytes).into_iter().collect()
    };
    rows.map_err(|error| {
        // The place is at the end of serde_json's own message.
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = message.strip_suffix(&place).unwrap_or(&message);
        format!("{name}:{}:{}: {what}", error.line(), error.column())
    })
}
