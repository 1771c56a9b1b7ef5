//! Which iterations are traced: decided before the first request, with a probability that is known.

use std::time::{Duration, Instant};

use crate::model::plan::TracePolicy;

/// How often the probability is fitted to the rate.
const WINDOW: Duration = Duration::from_secs(1);
/// The first iterations of a scenario are traced in any case, so that there is always something to look at.
const ALWAYS: u64 = 5;

/// Decides for one scenario on one worker thread.
#[derive(Debug)]
pub(crate) struct Sampler {
    policy: Policy,
    seen: u64,
}

#[derive(Debug)]
enum Policy {
    Ratio(f64),
    Budget(Budget),
}

/// At most `per_window` iterations a window, spread over it.
///
/// The probability depends on the past alone, never on the iteration that it decides about: so one over it is an
/// unbiased weight (Horvitz and Thompson, 1952).
#[derive(Debug)]
struct Budget {
    per_window: f64,
    probability: f64,
    window_start: Instant,
    offered: u64,
    taken: u64,
    /// How many taken in this window halve the probability next.
    brake_at: f64,
}

/// A traced iteration's weight in statistics: one over the probability that it was chosen with, 0 where it was
/// traced for show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weight(pub(crate) f64);

impl Sampler {
    /// The sampler of one of `shares` scenarios on worker threads that share the policy's budget; `None` when nothing is
    /// traced.
    pub(crate) fn new(policy: TracePolicy, shares: usize, now: Instant) -> Option<Self> {
        let policy = match policy {
            TracePolicy::Off => return None,
            TracePolicy::All => Policy::Ratio(1.0),
            TracePolicy::Ratio(ratio) => Policy::Ratio(ratio),
            TracePolicy::Rate(rate) => {
                let per_window = rate * WINDOW.as_secs_f64() / shares.max(1) as f64;
                Policy::Budget(Budget {
                    per_window,
                    probability: 1.0,
                    window_start: now,
                    offered: 0,
                    taken: 0,
                    brake_at: per_window,
                })
            }
        };
        Some(Self { policy, seen: 0 })
    }

    /// Whether the iteration that starts now is traced. `dice` is drawn evenly from 0 to 1.
    pub(crate) fn decide(&mut self, now: Instant, dice: f64) -> Option<Weight> {
        self.seen += 1;
        let (probability, chosen) = match &mut self.policy {
            Policy::Ratio(ratio) => (*ratio, dice < *ratio),
            Policy::Budget(budget) => budget.decide(now, dice),
        };
        if chosen { Some(Weight(1.0 / probability)) } else { (self.seen <= ALWAYS).then_some(Weight(0.0)) }
    }
}

impl Budget {
    fn decide(&mut self, now: Instant, dice: f64) -> (f64, bool) {
        let passed = now.saturating_duration_since(self.window_start);
        if passed >= WINDOW {
            // The last window's rate, brought to one window's length, says what this one will bring.
            let expected = self.offered as f64 * WINDOW.as_secs_f64() / passed.as_secs_f64();
            self.probability = if expected > self.per_window { self.per_window / expected } else { 1.0 };
            self.window_start = now;
            self.offered = 0;
            self.taken = 0;
            self.brake_at = self.per_window;
        } else if self.taken as f64 >= self.brake_at {
            self.probability /= 2.0;
            self.brake_at += self.per_window / 2.0;
        }
        self.offered += 1;
        let chosen = dice < self.probability;
        self.taken += u64::from(chosen);
        (self.probability, chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(policy: TracePolicy, per_second: u32, seconds: u32, seed: u64) -> (u64, f64) {
        let start = crate::sys::clock::now();
        let mut sampler = Sampler::new(policy, 1, start).unwrap();
        let mut dice = fastrand::Rng::with_seed(seed);
        let (mut traced, mut weight) = (0, 0.0);
        for n in 0..per_second * seconds {
            let now = start + Duration::from_secs_f64(f64::from(n) / f64::from(per_second));
            if let Some(Weight(w)) = sampler.decide(now, dice.f64()) {
                traced += 1;
                weight += w;
            }
        }
        (traced, weight)
    }

    #[test]
    fn within_the_budget_everything_is_traced_with_weight_one() {
        assert_eq!(run(TracePolicy::Rate(500.0), 100, 10, 1), (1000, 1000.0));
        assert_eq!(run(TracePolicy::All, 5000, 2, 1), (10_000, 10_000.0));
    }

    #[test]
    fn the_first_iterations_are_shown_without_weight() {
        assert_eq!(run(TracePolicy::Ratio(0.0), 100, 1, 1), (ALWAYS, 0.0));
        assert!(Sampler::new(TracePolicy::Off, 1, crate::sys::clock::now()).is_none());
    }

    proptest! {
        #[test]
        fn a_budget_holds_and_the_weights_add_up_to_what_was_seen(rate in 600_u32..20_000, seed in 0_u64..1000) {
            let seconds = 10;
            let (traced, weight) = run(TracePolicy::Rate(500.0), rate, seconds, seed);
            // The first second can take more: nothing is known then; each half budget more halves the probability.
            prop_assert!(traced < 500 * (u64::from(seconds) + 5), "{} traced", traced);
            let seen = f64::from(rate * seconds);
            prop_assert!((weight - seen).abs() < seen * 0.15, "{} for {}", weight, seen);
        }
    }
}
