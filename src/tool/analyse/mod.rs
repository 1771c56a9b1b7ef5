//! What spans and counters mean: which request caused which spans, where its time went, which traces are worth
//! keeping, and whether the generator was fit to measure. Pure: no IO, no clock, no state but what it is given.
//!
//! [`reduce`](reduce::reduce) turns a whole trace into one partition of time per step; an
//! [`Attributor`](attribute::Attributor) gathers those in bounded memory and ends as rows of the summary.

pub(crate) mod attribute;
mod band;
mod bootstrap;
pub(crate) mod health;
pub(crate) mod op;
mod path;
pub(crate) mod reduce;
pub(crate) mod reservoir;
mod shares;
mod tree;

#[cfg(test)]
mod testing;
