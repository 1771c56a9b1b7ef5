//! What an author writes with: the scenario builder, the virtual user, checks and pauses.

mod builder;
mod figures;
mod flow;
mod limit;
mod load;
mod measures;
mod mix;
mod pause;
mod requests;
mod step;
pub(crate) mod user;
mod vu;

pub use builder::{Scenario, Stateful, scenario, stateful};
pub use figures::{Counter, Gauge, Number, Rate, Trend, TrendValue};
pub use limit::{Limit, limit};
pub use mix::mix;
pub use pause::Pause;
pub use vu::Vu;

pub(crate) use measures::Measures;
pub(crate) use vu::{Current, RunFacts, VuParts};

use std::time::Duration;

pub use crate::model::load::Stage;

/// One leg of a ramp: over `duration` the number of users, or the rate of arrivals, moves in a straight line to `target`.
///
/// A number of users is whole and not negative; a rate may have a fraction.
///
/// ```
/// use loadtest::prelude::*;
/// let up = stage(secs(30), 20);
/// assert_eq!((up.duration, up.target), (Duration::from_secs(30), 20.0));
/// ```
#[must_use]
pub fn stage(duration: Duration, target: impl Into<f64>) -> Stage {
    Stage::new(duration, target.into())
}

/// `n` milliseconds.
#[must_use]
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` seconds.
#[must_use]
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `n` minutes.
#[must_use]
pub const fn mins(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
