//! Identifiers: runs, traces, spans.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The first four bytes of every trace id this tool makes ("load test" in hexadecimal), so that a backend can
/// tell load traffic from users' traffic by the trace id alone.
pub(crate) const TRACE_ID_PREFIX: u32 = 0x10ad_7e57;

/// One invocation of the tool: the UTC time of its start and four random hexadecimal digits, e.g. `20261130T134501-7f3a`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RunId(String);

impl RunId {
    pub(crate) fn new(started_unix_nanos: u64, random: u16) -> Self {
        let at = jiff::Timestamp::from_nanosecond(i128::from(started_unix_nanos))
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self(format!("{}-{random:04x}", at.strftime("%Y%m%dT%H%M%S")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What decides about random things where no seed is given: FNV-1a, cut to what any reader of JSON takes for a whole
    /// number.
    pub(crate) fn seed(&self) -> u64 {
        let hash = self.0.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash >> 11
    }
}

/// A text that is no run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no run id; one looks like 20261130T134501-7f3a")]
pub(crate) struct NotARunId(String);

impl FromStr for RunId {
    type Err = NotARunId;

    /// Takes exactly the form that [`RunId::new`] makes, so a run id is always a safe file name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = |part: &str, len| part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit());
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let parts = text.split_once('T').and_then(|(date, rest)| Some((date, rest.split_once('-')?)));
        match parts {
            Some((date, (time, random)))
                if digits(date, 8) && digits(time, 6) && random.len() == 4 && random.bytes().all(hex) =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err(NotARunId(text.to_owned())),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What all trace ids of one run begin with: [`TRACE_ID_PREFIX`], then four bytes drawn for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TracePrefix(u64);

impl TracePrefix {
    pub(crate) fn new(run: u32) -> Self {
        Self(u64::from(TRACE_ID_PREFIX) << 32 | u64::from(run))
    }

    /// The trace id of this run whose last eight bytes are `random`.
    pub(crate) fn trace(self, random: u64) -> TraceId {
        TraceId(u128::from(self.0) << 64 | u128::from(random))
    }

    /// Whether `id` was made in this run.
    pub(crate) fn owns(self, id: TraceId) -> bool {
        (id.0 >> 64) as u64 == self.0
    }
}

/// A W3C trace id: 16 bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TraceId(pub(crate) u128);

/// A W3C span (parent) id: 8 bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpanId(pub(crate) u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TraceId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl Serialize for TraceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_the_utc_second_and_four_hexadecimal_digits() {
        let id = RunId::new(1_796_046_301_000_000_000, 0x7f3a);
        assert_eq!(id.as_str(), "20261130T134501-7f3a");
        assert_eq!(id.as_str().parse(), Ok(id));
        for text in [
            "",
            "20261130T134501",
            "20261130T134501-7F3A",
            "../20261130T134501-7f3a",
            "20261130T134501-7f3a/",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_trace_id_names_the_tool_then_the_run_then_is_random() {
        let prefix = TracePrefix::new(0xdead_beef);
        let id = prefix.trace(1);
        assert_eq!(id.to_string(), "10ad7e57deadbeef0000000000000001");
        assert!(prefix.owns(id));
        assert!(!TracePrefix::new(0xdead_beee).owns(id));
        assert_eq!("10ad7e57deadbeef0000000000000001".parse(), Ok(id));
    }
}
