//! When users start, retire and are interrupted, and when iterations of open models do: pure, from a load model to
//! absolute offsets from the load's start.

mod arrivals;

use std::iter::Peekable;
use std::time::Duration;
use std::vec::IntoIter;

use crate::model::load::{LoadModel, Stage};

use arrivals::Arrivals;
pub(crate) use arrivals::seed_of;

/// Something that falls due at an offset from the load's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// What is done with users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// User `vu` (from 0) begins, or goes on where it was about to end.
    Start { vu: u32 },
    /// User `vu` ends after its current iteration. `turn` counts the retirements of the schedule.
    Retire { vu: u32, turn: u32 },
    /// User `vu`'s iteration is cut off, if the user has not ended or gone on since retirement `turn`.
    Cut { vu: u32, turn: u32 },
    /// A free user, whichever, begins one iteration.
    Arrive,
    /// No user begins another iteration.
    RetireAll,
    /// All iterations are cut off.
    CutAll,
}

/// How long users may go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    pub(crate) stop: Duration,
    pub(crate) ramp_down: Duration,
}

/// Everything that falls due for a load model, in order, made as it is asked for: an open model's arrivals may be many
/// millions. What falls on one instant keeps the stages' order. `seed` decides about arrivals at random alone.
pub(crate) fn of(model: &LoadModel, grace: Grace, seed: u64) -> Schedule {
    let mut due = match model {
        LoadModel::ConstantVus { vus, .. }
        | LoadModel::SharedIterations { vus, .. }
        | LoadModel::IterationsPerVu { vus, .. } => {
            (0..*vus).map(|vu| Due { at: Duration::ZERO, action: Action::Start { vu } }).collect()
        }
        LoadModel::RampingVus { stages } => ramp(stages, grace),
        LoadModel::ConstantArrivalRate { .. } | LoadModel::RampingArrivalRate { .. } => Vec::new(),
    };
    let end = model.duration();
    due.push(Due { at: end, action: Action::RetireAll });
    due.push(Due { at: end.saturating_add(grace.stop), action: Action::CutAll });
    due.sort_by_key(|due| due.at);
    Schedule { users: due.into_iter().peekable(), arrivals: Arrivals::of(model, seed).peekable() }
}

/// What falls due for one load, in order.
#[derive(Debug)]
pub(crate) struct Schedule {
    users: Peekable<IntoIter<Due>>,
    arrivals: Peekable<Arrivals>,
}

impl Iterator for Schedule {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        match (self.arrivals.peek(), self.users.peek()) {
            (Some(at), next) if next.is_none_or(|due| *at < due.at) => {
                self.arrivals.next().map(|at| Due { at, action: Action::Arrive })
            }
            _ => self.users.next(),
        }
    }
}

/// The changes of a ramp. On the straight line from a to b, user n begins when the line reaches n from below, and ends
/// when it reaches n−1 from above, as in k6: a leg's last change falls on its end.
fn ramp(stages: &[Stage], grace: Grace) -> Vec<Due> {
    let mut due = Vec::new();
    let (mut from, mut leg_start, mut turn) = (0_u32, Duration::ZERO, 0);
    for stage in stages {
        let target = stage.users();
        let changes = target.abs_diff(from);
        for nth in 1..=changes {
            let at = leg_start + fraction(stage.duration, nth, changes);
            if target > from {
                due.push(Due { at, action: Action::Start { vu: from + nth - 1 } });
            } else {
                let vu = from - nth;
                turn += 1;
                due.push(Due { at, action: Action::Retire { vu, turn } });
                due.push(Due { at: at.saturating_add(grace.ramp_down), action: Action::Cut { vu, turn } });
            }
        }
        leg_start += stage.duration;
        from = target;
    }
    due
}

/// `whole * nth / of`, to the nanosecond, rounded down.
fn fraction(whole: Duration, nth: u32, of: u32) -> Duration {
    let nanos = whole.as_nanos() * u128::from(nth) / u128::from(of);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRACE: Grace = Grace { stop: Duration::from_secs(30), ramp_down: Duration::from_secs(30) };

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn all(model: &LoadModel) -> Vec<Due> {
        of(model, GRACE, 0).collect()
    }

    /// How many users there are to be just after `at`.
    fn users_at(due: &[Due], at: Duration) -> i64 {
        due.iter().filter(|due| due.at <= at).fold(0, |users, due| match due.action {
            Action::Start { .. } => users + 1,
            Action::Retire { .. } => users - 1,
            _ => users,
        })
    }

    #[test]
    fn a_ramp_starts_and_retires_users_evenly_and_ends_each_leg_on_its_target() {
        let stages = [Stage::new(ms(4000), 4.0), Stage::new(ms(1000), 4.0), Stage::new(ms(2000), 0.0)];
        let due = all(&LoadModel::RampingVus { stages: stages.to_vec() });
        let changes: Vec<_> = due
            .iter()
            .filter(|d| matches!(d.action, Action::Start { .. } | Action::Retire { .. }))
            .copied()
            .collect();
        let start = |at, vu| Due { at: ms(at), action: Action::Start { vu } };
        let retire = |at, vu, turn| Due { at: ms(at), action: Action::Retire { vu, turn } };
        assert_eq!(
            changes,
            [
                start(1000, 0),
                start(2000, 1),
                start(3000, 2),
                start(4000, 3),
                retire(5500, 3, 1),
                retire(6000, 2, 2),
                retire(6500, 1, 3),
                retire(7000, 0, 4),
            ]
        );
        assert_eq!(due[due.len() - 1], Due { at: ms(37_000), action: Action::CutAll });
    }

    #[test]
    fn a_stage_of_no_length_is_a_jump() {
        let stages = vec![Stage::new(ms(0), 3.0), Stage::new(ms(1000), 3.0)];
        let due = all(&LoadModel::RampingVus { stages });
        assert_eq!(users_at(&due, Duration::ZERO), 3);
    }

    #[test]
    fn models_without_a_ramp_start_all_users_at_once() {
        let due = all(&LoadModel::ConstantVus { vus: 7, duration: ms(100) });
        assert_eq!(users_at(&due, Duration::ZERO), 7);
        assert!(due.contains(&Due { at: ms(100), action: Action::RetireAll }));
    }

    #[test]
    fn arrivals_are_made_as_they_are_asked_for_and_stand_before_the_end() {
        let hour = LoadModel::ConstantArrivalRate {
            rate: 20_000.0,
            per: ms(1000),
            duration: Duration::from_secs(3600),
            open: crate::model::load::Open::default(),
        };
        let first: Vec<_> = of(&hour, GRACE, 0).take(3).map(|due| (due.at.as_micros(), due.action)).collect();
        assert_eq!(first, [(0, Action::Arrive), (50, Action::Arrive), (100, Action::Arrive)]);
        let slow = LoadModel::ConstantArrivalRate {
            rate: 1.0,
            per: ms(10_000),
            duration: ms(30_000),
            open: crate::model::load::Open::default(),
        };
        let due: Vec<_> = of(&slow, GRACE, 0).map(|due| (due.at.as_secs(), due.action)).collect();
        let arrive = |at| (at, Action::Arrive);
        assert_eq!(due, [arrive(0), arrive(10), arrive(20), (30, Action::RetireAll), (60, Action::CutAll)]);
    }

    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        let stage =
            (0_u64..5000, 0_u32..60).prop_map(|(millis, target)| Stage::new(ms(millis), target.into()));
        proptest::collection::vec(stage, 1..8)
    }

    proptest! {
        #[test]
        fn users_follow_the_line_within_one(stages in stages(), sample in 0.0_f64..1.0) {
            let due = all(&LoadModel::RampingVus { stages: stages.clone() });
            let total: Duration = stages.iter().map(|s| s.duration).sum();
            let at = total.mul_f64(sample);
            let (mut from, mut start) = (0.0, Duration::ZERO);
            let mut line = 0.0;
            for stage in &stages {
                let end = start + stage.duration;
                let target = stage.target;
                line = target;
                if at < end {
                    line = from + (target - from) * at.checked_sub(start).unwrap().as_secs_f64() / stage.duration.as_secs_f64();
                    break;
                }
                (from, start) = (target, end);
            }
            prop_assert!((users_at(&due, at) as f64 - line).abs() < 1.000_001, "{} for {}", users_at(&due, at), line);
        }

        #[test]
        fn everything_is_in_order_and_ends_on_the_last_target(stages in stages()) {
            let due = all(&LoadModel::RampingVus { stages: stages.clone() });
            prop_assert!(due.is_sorted_by_key(|due| due.at));
            let mut running = [false; 64];
            for due in &due {
                match due.action {
                    Action::Start { vu } => running[vu as usize] = true,
                    Action::Retire { vu, .. } => running[vu as usize] = false,
                    _ => {}
                }
            }
            let last = stages.last().unwrap().users() as usize;
            prop_assert_eq!(running.iter().filter(|on| **on).count(), last);
        }
    }
}
