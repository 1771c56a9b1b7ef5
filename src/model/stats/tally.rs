//! Error messages, by how often they came.

use serde::{Deserialize, Serialize};

/// How many distinct error messages are kept word for word; the rest are counted together.
const DISTINCT_ERRORS: usize = 20;

/// The first distinct error messages and how often each came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorTally {
    pub(crate) messages: Vec<(String, u64)>,
    /// Errors whose message came after the first [`DISTINCT_ERRORS`].
    pub(crate) other: u64,
}

impl ErrorTally {
    pub(crate) fn add(&mut self, message: &str, count: u64) {
        if let Some((_, known)) = self.messages.iter_mut().find(|(known, _)| known == message) {
            *known += count;
        } else if self.messages.len() < DISTINCT_ERRORS {
            self.messages.push((message.to_owned(), count));
        } else {
            self.other += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (message, count) in &other.messages {
            self.add(message, *count);
        }
        self.other += other.other;
    }

    /// The message that came most often.
    pub(crate) fn commonest(&self) -> Option<&str> {
        self.messages.iter().max_by_key(|(_, count)| *count).map(|(message, _)| message.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_distinct_messages_are_kept_and_none_is_lost() {
        let mut tally = ErrorTally::default();
        for n in 0..DISTINCT_ERRORS + 5 {
            tally.add(&format!("error {n}"), 1);
        }
        tally.add("error 3", 9);
        assert_eq!(tally.messages.len(), DISTINCT_ERRORS);
        assert_eq!(tally.other, 5);
        assert_eq!(tally.commonest(), Some("error 3"));
    }
}
