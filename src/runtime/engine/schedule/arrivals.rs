//! The instants at which iterations of open models start. With F(t) for the integral of the rate, arrival n (from 0)
//! falls on F⁻¹(n): exactly, over all stages, so that what one stage leaves of an arrival the next one carries on. A
//! stretch without arrivals is passed over.

use std::time::Duration;

use crate::model::load::LoadModel;

/// A straight piece of the rate. Times in nanoseconds, rates in arrivals a nanosecond.
#[derive(Debug, Clone, Copy)]
struct Leg {
    start: f64,
    length: f64,
    from: f64,
    to: f64,
    /// Arrivals before it, a fraction included.
    before: f64,
}

impl Leg {
    fn arrivals(&self) -> f64 {
        self.from.midpoint(self.to) * self.length
    }

    /// The instant at which the integral reaches `n`, which the leg does reach.
    fn reach(&self, n: f64) -> f64 {
        let more = n - self.before;
        if more <= 0.0 {
            return self.start;
        }
        // The root of from·t + (to − from)/(2·length)·t² = more, in the form that loses no digits.
        let square = self.from * self.from + 2.0 * more * (self.to - self.from) / self.length;
        let after = 2.0 * more / (self.from + square.max(0.0).sqrt());
        self.start + after.min(self.length)
    }
}

/// The offsets of all arrivals, in order.
#[derive(Debug)]
pub(super) struct Arrivals {
    legs: Vec<Leg>,
    /// The leg that the next arrival is looked for in.
    at: usize,
    /// Where the next arrival stands, counted in arrivals.
    next: f64,
    all: f64,
    end: Duration,
    /// `None`: evenly.
    gaps: Option<Gaps>,
}

impl Arrivals {
    /// None for a closed model. `seed` decides about arrivals at random alone.
    pub(super) fn of(model: &LoadModel, seed: u64) -> Self {
        let (start, per, line) = match model {
            LoadModel::ConstantArrivalRate { rate, per, duration, .. } => {
                (*rate, *per, vec![(*duration, *rate)])
            }
            LoadModel::RampingArrivalRate { start, per, stages, .. } => {
                (*start, *per, stages.iter().map(|stage| (stage.duration, stage.target)).collect())
            }
            _ => (0.0, Duration::from_secs(1), Vec::new()),
        };
        let per = per.as_nanos() as f64;
        let (mut legs, mut from, mut begin, mut before) = (Vec::new(), start / per, Duration::ZERO, 0.0);
        for (length, target) in line {
            let to = target / per;
            let leg =
                Leg { start: begin.as_nanos() as f64, length: length.as_nanos() as f64, from, to, before };
            begin = begin.saturating_add(length);
            before += leg.arrivals();
            from = to;
            if leg.arrivals() > 0.0 {
                legs.push(leg);
            }
        }
        let mut gaps = model.open().is_some_and(|open| open.poisson).then_some(Gaps(seed));
        let next = gaps.as_mut().map_or(0.0, Gaps::draw);
        Self { legs, at: 0, next, all: before, end: begin, gaps }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // An arrival on the very end is none: what rounding leaves of it is not one either.
        if self.next >= self.all - (1e-9 + self.all * 1e-12) {
            return None;
        }
        while let Some(leg) = self.legs.get(self.at).filter(|leg| self.next >= leg.before + leg.arrivals()) {
            debug_assert!(leg.length > 0.0, "a leg without length has no arrivals");
            self.at += 1;
        }
        let at = Duration::from_nanos(self.legs.get(self.at)?.reach(self.next).round() as u64);
        self.next += self.gaps.as_mut().map_or(1.0, Gaps::draw);
        (at < self.end).then_some(at)
    }
}

/// Gaps of a Poisson process of rate 1: exponential, drawn with `SplitMix64`, so that a seed means the same arrivals in
/// every version.
#[derive(Debug)]
struct Gaps(u64);

impl Gaps {
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = mix(self.0) >> 11;
        // From (0, 1]: the logarithm of 0 is none.
        let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of one scenario within a run, so that no two scenarios' arrivals fall together.
pub(crate) fn seed_of(run: u64, scenario: &str) -> u64 {
    scenario.bytes().fold(mix(run), |seed, byte| mix(seed ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::load::{Open, Stage};
    use proptest::prelude::*;

    fn ramp(start: f64, per: Duration, stages: Vec<Stage>) -> LoadModel {
        LoadModel::RampingArrivalRate { start, per, stages, open: Open::default() }
    }

    fn constant(rate: f64, per: Duration, duration: Duration, poisson: bool) -> LoadModel {
        let open = Open { poisson, ..Open::default() };
        LoadModel::ConstantArrivalRate { rate, per, duration, open }
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// The integral of the rate up to `at` nanoseconds, leg by leg, each from whole numbers alone.
    fn integral(start: u32, per_ms: u64, stages: &[(u64, u32)], at: u64) -> f64 {
        let (mut from, mut begin, mut sum) = (i128::from(start), 0_i128, 0.0);
        for (ms, target) in stages {
            let (length, to) = (i128::from(*ms) * 1_000_000, i128::from(*target));
            let t = (i128::from(at) - begin).clamp(0, length);
            if length > 0 {
                // 2·length·per·F = 2·length·from·t + (to − from)·t²
                let scaled = 2 * length * from * t + (to - from) * t * t;
                let unit = 2 * length * i128::from(per_ms) * 1_000_000;
                sum += (scaled / unit) as f64 + (scaled % unit) as f64 / unit as f64;
            }
            (from, begin) = (to, begin + length);
        }
        sum
    }

    fn line() -> impl Strategy<Value = (u32, u64, Vec<(u64, u32)>)> {
        let rate = || prop_oneof![Just(0_u32), 1_u32..400];
        let length = prop_oneof![Just(0_u64), 1_u64..20_000];
        let stages = proptest::collection::vec((length, rate()), 1..7);
        (rate(), prop_oneof![Just(1000_u64), 1_u64..20_000], stages)
    }

    proptest! {
        #[test]
        fn starts_in_any_interval_are_the_integral_of_the_rate_within_one(
            (start, per_ms, stages) in line(), cuts in proptest::collection::vec(0.0_f64..=1.0, 2..12)
        ) {
            let legs = stages.iter().map(|(ms, to)| Stage::new(Duration::from_millis(*ms), f64::from(*to))).collect();
            let model = ramp(f64::from(start), Duration::from_millis(per_ms), legs);
            let end = stages.iter().map(|(ms, _)| ms * 1_000_000).sum::<u64>();
            let all = integral(start, per_ms, &stages, end);
            prop_assume!(all < 200_000.0);
            let starts: Vec<u64> = Arrivals::of(&model, 0).map(|at| at.as_nanos() as u64).collect();
            prop_assert!(starts.is_sorted() && starts.iter().all(|at| *at < end));
            // A nanosecond to either side is a part of an arrival.
            let fuzz = 1e-6 + 2.0 * f64::from(400) / (per_ms as f64 * 1e6);
            for (n, at) in starts.iter().enumerate() {
                let before = integral(start, per_ms, &stages, *at);
                prop_assert!((before - n as f64).abs() < fuzz, "arrival {} at F = {}", n, before);
            }
            let mut cuts: Vec<u64> = cuts.iter().map(|cut| (end as f64 * cut) as u64).collect();
            cuts.extend([0, end]);
            for a in &cuts {
                for b in cuts.iter().filter(|b| a <= b) {
                    let count = starts.iter().filter(|at| (a..b).contains(at)).count() as f64;
                    let want = integral(start, per_ms, &stages, *b) - integral(start, per_ms, &stages, *a);
                    prop_assert!((count - want).abs() <= 1.0 + fuzz, "{} for {} in {}..{}", count, want, a, b);
                }
            }
        }
    }

    #[test]
    fn a_constant_rate_starts_on_the_beat_and_not_on_the_end() {
        let starts: Vec<_> = Arrivals::of(&constant(100.0, SECOND, 30 * SECOND, false), 0).collect();
        assert_eq!(starts.len(), 3000);
        assert!(starts.iter().enumerate().all(|(n, at)| *at == Duration::from_millis(10) * n as u32));
        let starts: Vec<_> = Arrivals::of(&constant(1.0, 10 * SECOND, 30 * SECOND, false), 0).collect();
        assert_eq!(starts, [0, 10, 20].map(Duration::from_secs));
        let starts: Vec<_> = Arrivals::of(&constant(20_000.0, SECOND, 10 * SECOND, false), 0).collect();
        assert_eq!(starts.len(), 200_000);
        assert!(starts.iter().enumerate().all(|(n, at)| *at == Duration::from_micros(50) * n as u32));
        let odd: Vec<_> = Arrivals::of(&constant(0.3, SECOND, 10 * SECOND, false), 0).collect();
        assert_eq!(odd.len(), 3);
        assert_eq!(odd[2], Duration::from_nanos(6_666_666_667));
    }

    #[test]
    fn a_ramp_carries_fractions_over_stages_jumps_and_passes_over_silence() {
        let stage = |seconds, target| Stage::new(Duration::from_secs(seconds), target);
        // 0.5 arrivals in each of the first stages, then silence, then a jump to 1/s.
        let stages =
            vec![stage(1, 0.5), stage(1, 0.5), stage(0, 0.0), stage(10, 0.0), stage(0, 1.0), stage(2, 1.0)];
        let starts: Vec<_> = Arrivals::of(&ramp(0.5, SECOND, stages), 0).collect();
        assert_eq!(starts, [0, 12, 13].map(Duration::from_secs));
        // F(t) = t² / 2 over 4 s: arrival n at √(2n).
        let starts: Vec<_> = Arrivals::of(&ramp(0.0, SECOND, vec![stage(4, 4.0)]), 0).collect();
        let exact: Vec<_> = (0..8).map(|n| Duration::from_secs_f64(f64::from(2 * n).sqrt())).collect();
        assert_eq!(starts.len(), 8);
        for (start, exact) in starts.iter().zip(exact) {
            assert!(start.abs_diff(exact) <= Duration::from_nanos(2), "{start:?} for {exact:?}");
        }
    }

    #[test]
    fn arrivals_at_random_are_the_seeds_own_and_as_many_as_the_rate_asks_for() {
        let model = constant(500.0, SECOND, 40 * SECOND, true);
        let starts = |seed| Arrivals::of(&model, seed).collect::<Vec<_>>();
        let one = starts(seed_of(7, "a"));
        assert_eq!(one, starts(seed_of(7, "a")));
        assert_ne!(one, starts(seed_of(7, "b")));
        assert_ne!(one, starts(seed_of(8, "a")));
        assert!(one.is_sorted() && one.iter().all(|at| *at < 40 * SECOND));
        // 20,000 are due: four standard deviations are 566.
        assert!((19_434..=20_566).contains(&one.len()), "{}", one.len());
        // The gaps of a Poisson process spread as much as their mean, and e⁻¹ of them are longer than it.
        let gaps: Vec<f64> =
            one.windows(2).map(|pair| (pair[1].as_secs_f64() - pair[0].as_secs_f64()) * 500.0).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        let longer = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.03 && (spread - 1.0).abs() < 0.05, "{mean} {spread}");
        assert!((longer - (-1.0_f64).exp()).abs() < 0.015, "{longer}");
    }

    #[test]
    fn arrivals_at_random_follow_a_ramp() {
        let open = Open { poisson: true, ..Open::default() };
        let stages = vec![Stage::new(10 * SECOND, 2000.0)];
        let model = LoadModel::RampingArrivalRate { start: 0.0, per: SECOND, stages, open };
        let starts: Vec<_> = Arrivals::of(&model, 3).collect();
        let first_half = starts.iter().filter(|at| **at < 5 * SECOND).count();
        // 2500 of 10,000 are due in the first half.
        assert!((2300..2700).contains(&first_half) && (9600..10_400).contains(&starts.len()), "{first_half}");
    }
}
