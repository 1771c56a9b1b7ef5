//! Sets of status codes.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// The status codes that a request expects: one, several, or a range.
///
/// ```
/// use loadtest::StatusSet;
/// assert!(StatusSet::from(404).contains(404));
/// assert!(StatusSet::from([200, 404]).contains(404));
/// assert!(StatusSet::from(200..=299).contains(204));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSet {
    ranges: Cow<'static, [RangeInclusive<u16>]>,
}

impl Default for StatusSet {
    /// 200 to 399.
    fn default() -> Self {
        Self { ranges: Cow::Borrowed(&[200..=399]) }
    }
}

impl StatusSet {
    /// Whether the set holds `status`.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&status))
    }
}

impl From<u16> for StatusSet {
    fn from(status: u16) -> Self {
        Self { ranges: vec![status..=status].into() }
    }
}

impl<const N: usize> From<[u16; N]> for StatusSet {
    fn from(statuses: [u16; N]) -> Self {
        Self { ranges: statuses.into_iter().map(|status| status..=status).collect() }
    }
}

impl From<RangeInclusive<u16>> for StatusSet {
    fn from(range: RangeInclusive<u16>) -> Self {
        Self { ranges: vec![range].into() }
    }
}

impl From<Range<u16>> for StatusSet {
    fn from(range: Range<u16>) -> Self {
        Self {
            ranges: if range.is_empty() { Cow::default() } else { vec![range.start..=range.end - 1].into() },
        }
    }
}
