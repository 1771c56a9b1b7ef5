//! Load models: how many virtual users run, or how often iterations start, over time.

mod arrivals;
mod overrides;
pub(crate) mod timing;

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::duration;

pub(crate) use arrivals::{Open, Rate};
pub(crate) use overrides::LoadOverride;
pub(crate) use timing::Timing;

/// One leg of a ramp: the number of users, or the rate of arrivals, moves in a straight line to `target` over
/// `duration`. A leg of zero length is a jump.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stage {
    /// How long the leg takes.
    #[serde(with = "duration::text")]
    pub duration: Duration,
    /// How many users run at its end, or how many iterations start there in the ramp's unit of time.
    #[serde(serialize_with = "plain_number")]
    pub target: f64,
}

/// A whole number as one: `20`, not `20.0`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn plain_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match whole(*number) {
        Some(whole) => serializer.serialize_u32(whole),
        None => serializer.serialize_f64(*number),
    }
}

/// The number, where it is whole and not negative.
fn whole(number: f64) -> Option<u32> {
    ((0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0).then_some(number as u32)
}

impl Stage {
    pub(crate) const fn new(duration: Duration, target: f64) -> Self {
        Self { duration, target }
    }

    /// The target as a number of users; a model that was checked has no other.
    pub(crate) fn users(&self) -> u32 {
        self.target as u32
    }
}

impl std::str::FromStr for Stage {
    type Err = String;

    /// Reads `30s:20`: over 30 seconds, to 20 users.
    fn from_str(text: &str) -> Result<Self, String> {
        let (duration, target) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is no stage; write DURATION:USERS, such as 30s:20"))?;
        let users = target.trim();
        let target: u32 =
            users.parse().map_err(|_| format!("`{users}` in the stage `{text}` is not a number of users"))?;
        Ok(Self::new(duration::parse(duration)?, target.into()))
    }
}

/// What load a scenario is put under. In a closed model each user starts its next iteration when its last one ended;
/// in an open one iterations start by a schedule, whatever became of the earlier ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "executor", rename_all = "kebab-case")]
pub(crate) enum LoadModel {
    /// `vus` users loop until `duration` has passed.
    ConstantVus {
        vus: u32,
        #[serde(with = "duration::text")]
        duration: Duration,
    },
    /// The number of users follows `stages` from 0.
    RampingVus { stages: Vec<Stage> },
    /// `iterations` iterations in all, drawn by `vus` users from one pot.
    SharedIterations {
        vus: u32,
        iterations: u64,
        #[serde(with = "duration::text")]
        max_duration: Duration,
    },
    /// Each of `vus` users runs exactly `iterations` iterations.
    IterationsPerVu {
        vus: u32,
        iterations: u64,
        #[serde(with = "duration::text")]
        max_duration: Duration,
    },
    /// `rate` iterations start each `per`, evenly, until `duration` has passed.
    ConstantArrivalRate {
        #[serde(serialize_with = "plain_number")]
        rate: f64,
        #[serde(with = "duration::text")]
        per: Duration,
        #[serde(with = "duration::text")]
        duration: Duration,
        #[serde(flatten)]
        open: Open,
    },
    /// So many iterations start each `per`: at first `start`, then as `stages` say.
    RampingArrivalRate {
        #[serde(serialize_with = "plain_number")]
        start: f64,
        #[serde(with = "duration::text")]
        per: Duration,
        stages: Vec<Stage>,
        #[serde(flatten)]
        open: Open,
    },
}

/// How long iteration models may run when nothing else is said.
pub(crate) const DEFAULT_MAX_DURATION: Duration = Duration::from_secs(600);
/// How long running iterations may go on after the end of the load, or of their user.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl Default for LoadModel {
    /// One user, one iteration.
    fn default() -> Self {
        Self::SharedIterations { vus: 1, iterations: 1, max_duration: DEFAULT_MAX_DURATION }
    }
}

impl LoadModel {
    /// The name in reports and in `summary.json`.
    pub(crate) fn executor(&self) -> &'static str {
        match self {
            Self::ConstantVus { .. } => "constant-vus",
            Self::RampingVus { .. } => "ramping-vus",
            Self::SharedIterations { .. } => "shared-iterations",
            Self::IterationsPerVu { .. } => "iterations-per-vu",
            Self::ConstantArrivalRate { .. } => "constant-arrival-rate",
            Self::RampingArrivalRate { .. } => "ramping-arrival-rate",
        }
    }

    /// What an open model has beside its rate.
    pub(crate) fn open(&self) -> Option<&Open> {
        match self {
            Self::ConstantArrivalRate { open, .. } | Self::RampingArrivalRate { open, .. } => Some(open),
            _ => None,
        }
    }

    /// The most users that run at a time.
    pub(crate) fn vus_max(&self) -> u32 {
        match self {
            Self::ConstantVus { vus, .. }
            | Self::SharedIterations { vus, .. }
            | Self::IterationsPerVu { vus, .. } => *vus,
            Self::RampingVus { stages } => stages.iter().map(Stage::users).max().unwrap_or(0),
            Self::ConstantArrivalRate { open, .. } | Self::RampingArrivalRate { open, .. } => {
                open.users(self.peak_rate()).1
            }
        }
    }

    /// How many users are set up before the load begins: an open model may add more while it runs.
    pub(crate) fn vus_at_first(&self) -> u32 {
        self.open().map_or_else(|| self.vus_max(), |open| open.users(self.peak_rate()).0)
    }

    /// The highest rate of arrivals, a second; 0 of a closed model.
    pub(crate) fn peak_rate(&self) -> f64 {
        match self {
            Self::ConstantArrivalRate { rate, per, .. } => rate / per.as_secs_f64(),
            Self::RampingArrivalRate { start, per, stages, .. } => {
                stages.iter().map(|stage| stage.target).fold(*start, f64::max) / per.as_secs_f64()
            }
            _ => 0.0,
        }
    }

    /// After this no iteration starts: the exact length of a timed model, the bound of an iteration model.
    pub(crate) fn duration(&self) -> Duration {
        match self {
            Self::ConstantVus { duration, .. } | Self::ConstantArrivalRate { duration, .. } => *duration,
            Self::RampingVus { stages } | Self::RampingArrivalRate { stages, .. } => {
                stages.iter().map(|stage| stage.duration).fold(Duration::ZERO, Duration::saturating_add)
            }
            Self::SharedIterations { max_duration, .. } | Self::IterationsPerVu { max_duration, .. } => {
                *max_duration
            }
        }
    }

    /// How many iterations the model asks for, where it says.
    pub(crate) fn iterations(&self) -> Option<u64> {
        match self {
            Self::SharedIterations { iterations, .. } => Some(*iterations),
            Self::IterationsPerVu { vus, iterations, .. } => Some(u64::from(*vus) * iterations),
            _ => None,
        }
    }

    /// One line for people, e.g. `ramping-vus 0→20→20→0 over 2m`.
    pub(crate) fn describe(&self) -> String {
        let executor = self.executor();
        let line = |stages: &[Stage]| -> String {
            stages.iter().map(|stage| format!("→{}", stage.target)).collect()
        };
        let at_most = |open: &Open| {
            let poisson = if open.poisson { ", at random" } else { "" };
            format!("{poisson}, up to {}", users(self.vus_max()))
        };
        match self {
            Self::ConstantVus { vus, duration } => {
                format!("{executor} {vus} for {}", duration::format(*duration))
            }
            Self::RampingVus { stages } => {
                format!("{executor} 0{} over {}", line(stages), duration::format(self.duration()))
            }
            Self::SharedIterations { vus, iterations, .. } => {
                format!("{executor} {iterations} by {}", users(*vus))
            }
            Self::IterationsPerVu { vus, iterations, .. } => match vus {
                1 => format!("{executor} {iterations} by 1 user"),
                _ => format!("{executor} {iterations} by each of {}", users(*vus)),
            },
            Self::ConstantArrivalRate { rate, per, duration, open } => {
                let rate = Rate { count: *rate, per: *per };
                format!("{executor} {rate} for {}{}", duration::format(*duration), at_most(open))
            }
            Self::RampingArrivalRate { start, per, stages, open } => {
                let (unit, over) = (arrivals::unit(*per), duration::format(self.duration()));
                format!("{executor} {start}{}/{unit} over {over}{}", line(stages), at_most(open))
            }
        }
    }

    /// What is wrong with the model, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::ConstantVus { vus: 0, .. }
            | Self::SharedIterations { vus: 0, .. }
            | Self::IterationsPerVu { vus: 0, .. } => {
                Err("the number of users is 0; at least 1 is needed".into())
            }
            Self::ConstantVus { duration, .. } if duration.is_zero() => {
                Err("the duration is 0s; nothing would run".into())
            }
            Self::RampingVus { stages } | Self::RampingArrivalRate { stages, .. } if stages.is_empty() => {
                Err("a ramp without stages runs nothing; give at least one stage(duration, target)".into())
            }
            Self::RampingVus { stages } if stages.iter().any(|stage| whole(stage.target).is_none()) => {
                let targets = stages.iter().map(|stage| stage.target);
                let odd = targets.into_iter().find(|target| whole(*target).is_none()).unwrap_or_default();
                Err(format!("{odd} is no number of users; the target of a stage is whole and not negative"))
            }
            Self::RampingVus { .. } if self.vus_max() == 0 => {
                Err("every stage has the target 0; nothing would run".into())
            }
            Self::RampingVus { .. } | Self::RampingArrivalRate { .. } if self.duration().is_zero() => {
                Err("the stages together last 0s; nothing would run".into())
            }
            Self::SharedIterations { iterations: 0, .. } | Self::IterationsPerVu { iterations: 0, .. } => {
                Err("the number of iterations is 0; at least 1 is needed".into())
            }
            Self::SharedIterations { vus, iterations, .. } if *iterations < u64::from(*vus) => {
                Err(format!("{iterations} iterations are fewer than {vus} users; some users would never run"))
            }
            Self::SharedIterations { max_duration, .. } | Self::IterationsPerVu { max_duration, .. }
                if max_duration.is_zero() =>
            {
                Err("the longest duration is 0s; nothing would run".into())
            }
            Self::ConstantArrivalRate { rate, per, duration, open } => {
                Rate { count: *rate, per: *per }.check()?;
                if duration.is_zero() {
                    return Err("the duration is 0s; nothing would run".into());
                }
                open.check(self.peak_rate())
            }
            Self::RampingArrivalRate { start, per, stages, open } => {
                arrivals::check_ramp(*start, *per, stages)?;
                open.check(self.peak_rate())
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn users(count: u32) -> String {
    if count == 1 { "1 user".to_owned() } else { format!("{count} users") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_model_describes_itself_in_one_line() {
        let stages = vec![Stage::new(secs(30), 20.0), Stage::new(secs(60), 20.0), Stage::new(secs(30), 0.0)];
        assert_eq!(LoadModel::RampingVus { stages }.describe(), "ramping-vus 0→20→20→0 over 2m");
        assert_eq!(
            LoadModel::ConstantVus { vus: 5, duration: secs(10) }.describe(),
            "constant-vus 5 for 10s"
        );
        let open = Open { max_vus: Some(50), ..Open::default() };
        assert_eq!(
            LoadModel::ConstantArrivalRate { rate: 100.0, per: secs(1), duration: secs(30), open }.describe(),
            "constant-arrival-rate 100/s for 30s, up to 50 users"
        );
        let stages = vec![Stage::new(secs(10), 2.5), Stage::new(secs(20), 0.0)];
        let open = Open { poisson: true, ..Open::default() };
        assert_eq!(
            LoadModel::RampingArrivalRate { start: 1.0, per: secs(10), stages, open }.describe(),
            "ramping-arrival-rate 1→2.5→0/10s over 30s, at random, up to 10 users"
        );
    }

    #[test]
    fn stages_are_read_and_nonsense_is_refused_by_name() {
        assert_eq!("30s:20".parse(), Ok(Stage::new(secs(30), 20.0)));
        assert_eq!("0s:0".parse(), Ok(Stage::new(secs(0), 0.0)));
        for text in ["", "30s", "30:20", "30s:", "30s:-1", "30s:many", "20:30s"] {
            assert!(text.parse::<Stage>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_model_that_would_run_nothing_is_refused() {
        for model in [
            LoadModel::ConstantVus { vus: 0, duration: secs(1) },
            LoadModel::ConstantVus { vus: 1, duration: secs(0) },
            LoadModel::RampingVus { stages: vec![] },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 0.0)] },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(0), 1.0)] },
            LoadModel::SharedIterations { vus: 3, iterations: 2, max_duration: secs(1) },
            LoadModel::IterationsPerVu { vus: 3, iterations: 0, max_duration: secs(1) },
            LoadModel::IterationsPerVu { vus: 3, iterations: 1, max_duration: secs(0) },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 1.5)] },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(1), -1.0)] },
        ] {
            assert!(model.check().is_err(), "{model:?}");
        }
    }

    #[test]
    fn an_open_model_that_would_run_nothing_or_makes_no_sense_is_refused() {
        let constant =
            |rate, per, duration, open| LoadModel::ConstantArrivalRate { rate, per, duration, open };
        let ramp = |start, stages: &[Stage]| LoadModel::RampingArrivalRate {
            start,
            per: secs(1),
            stages: stages.to_vec(),
            open: Open::default(),
        };
        let users = |pre_allocated_vus, max_vus| Open { pre_allocated_vus, max_vus, ..Open::default() };
        for (model, words) in [
            (constant(0.0, secs(1), secs(1), Open::default()), "rate"),
            (constant(f64::NAN, secs(1), secs(1), Open::default()), "rate"),
            (constant(f64::INFINITY, secs(1), secs(1), Open::default()), "rate"),
            (constant(1.0, secs(0), secs(1), Open::default()), "0s"),
            (constant(1.0, secs(1), secs(0), Open::default()), "0s"),
            (constant(1.0, secs(1), secs(1), users(Some(0), None)), "users"),
            (constant(1.0, secs(1), secs(1), users(None, Some(0))), "users"),
            (constant(1.0, secs(1), secs(1), users(Some(6), Some(5))), "6"),
            (ramp(1.0, &[]), "stages"),
            (ramp(0.0, &[Stage::new(secs(5), 0.0)]), "nothing"),
            (ramp(5.0, &[Stage::new(secs(0), 0.0), Stage::new(secs(5), 0.0)]), "nothing"),
            (ramp(5.0, &[Stage::new(secs(0), 9.0)]), "0s"),
            (ramp(-5.0, &[Stage::new(secs(1), 9.0)]), "-5"),
            (ramp(5.0, &[Stage::new(secs(1), -9.0)]), "-9"),
        ] {
            let error = model.check().unwrap_err();
            assert!(error.contains(words), "{model:?}: {error}");
        }
        assert_eq!(ramp(0.0, &[Stage::new(secs(5), 0.5)]).check(), Ok(()));
    }

    #[test]
    fn a_model_is_written_plainly_and_read_back() {
        let open = Open { max_vus: Some(7), ..Open::default() };
        for model in [
            LoadModel::RampingVus { stages: vec![Stage::new(secs(30), 20.0)] },
            LoadModel::ConstantArrivalRate { rate: 0.5, per: secs(1), duration: secs(9), open },
            LoadModel::RampingArrivalRate {
                start: 3.0,
                per: secs(60),
                stages: vec![],
                open: Open::default(),
            },
        ] {
            let json = serde_json::to_string(&model).unwrap();
            assert!(!json.contains(".0"), "{json}");
            assert_eq!(serde_json::from_str::<LoadModel>(&json).unwrap(), model);
        }
    }
}
