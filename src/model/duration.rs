//! Durations as people write them (`600ms`, `1.5s`, `1m30s`) and as the reports print them.

use std::time::Duration;

/// Reads `90s`, `1m30s`, `1.5s`, `600ms`, `250us`. A bare number has no unit and is refused.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refuse =
        || format!("`{text}` is not a duration; write it with a unit, such as 600ms, 30s, 1m30s or 2h");
    let text = text.trim();
    if text.is_empty()
        || text.starts_with('P')
        || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(refuse());
    }
    let signed: jiff::SignedDuration = text.parse().map_err(|_| refuse())?;
    Duration::try_from(signed).map_err(|_| format!("`{text}` is negative; a duration is zero or more"))
}

/// The shortest exact form that [`parse`] reads: `2m`, `1m30s`, `1.5s`, `600ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    let (hours, minutes, seconds) =
        (duration.as_secs() / 3600, duration.as_secs() / 60 % 60, duration.as_secs() % 60);
    if duration.is_zero() {
        return "0s".into();
    }
    if duration.as_secs() == 0 {
        return match nanos {
            n if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => format!("{}us", n / 1_000),
            n => format!("{n}ns"),
        };
    }
    let mut text = String::new();
    for (value, unit) in [(hours, "h"), (minutes, "m")] {
        if value > 0 {
            text += &format!("{value}{unit}");
        }
    }
    if nanos > 0 {
        let fraction = format!("{nanos:09}");
        text += &format!("{seconds}.{}s", fraction.trim_end_matches('0'));
    } else if seconds > 0 {
        text += &format!("{seconds}s");
    }
    text
}

/// Durations as strings in JSON, so that the wire and files stay readable and exact.
pub(crate) mod text {
    use super::Duration;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The same where there may be none.
pub(crate) mod optional_text {
    #![expect(clippy::ref_option, reason = "serde gives the field as it is")]

    use super::Duration;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(super::format).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse(&text)).transpose().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_that_people_write_are_read() {
        for (text, millis) in [
            ("600ms", 600),
            ("1.5s", 1500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("0s", 0),
            ("1 minute", 60_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_has_no_unit_or_no_sense_is_refused_by_name() {
        for text in ["10", "1.5", "", "fast", "-3s", "10x", "PT1S", "9999999999999999999999h"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_reads_back_the_same(nanos in 0_u64..400_000_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
