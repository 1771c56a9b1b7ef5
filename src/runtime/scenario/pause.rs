//! How long a user thinks.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// A pause of fixed length, or one drawn evenly from a range: what [`Vu::sleep`](super::Vu::sleep) takes.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    shortest: Duration,
    longest: Duration,
}

impl Pause {
    /// The length of one pause.
    pub(crate) fn draw(self) -> Duration {
        self.shortest + self.longest.saturating_sub(self.shortest).mul_f64(fastrand::f64())
    }
}

impl From<Duration> for Pause {
    fn from(exactly: Duration) -> Self {
        Self { shortest: exactly, longest: exactly }
    }
}

impl From<Range<Duration>> for Pause {
    fn from(range: Range<Duration>) -> Self {
        Self { shortest: range.start, longest: range.end }
    }
}

impl From<RangeInclusive<Duration>> for Pause {
    fn from(range: RangeInclusive<Duration>) -> Self {
        Self { shortest: *range.start(), longest: *range.end() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lies_within_its_range_also_when_the_range_is_empty() {
        let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
        for _ in 0..100 {
            assert!((one..=two).contains(&Pause::from(one..two).draw()));
            assert_eq!(Pause::from(one).draw(), one);
            assert_eq!(Pause::from(two..one).draw(), two);
        }
    }
}
