//! Load models: how many virtual users run, or how often iterations start, over time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// One leg of a ramp: the number of users moves in a straight line to `target` over `duration`.
/// A leg of zero length is a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stage {
    /// How long the leg takes.
    #[serde(with = "duration::text")]
    pub duration: Duration,
    /// How many users run at its end.
    pub target: u32,
}

impl Stage {
    pub(crate) const fn new(duration: Duration, target: u32) -> Self {
        Self { duration, target }
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
        let target =
            users.parse().map_err(|_| format!("`{users}` in the stage `{text}` is not a number of users"))?;
        Ok(Self::new(duration::parse(duration)?, target))
    }
}

/// A closed load model. Each user starts its next iteration when its last one ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        }
    }

    /// The most users that run at a time.
    pub(crate) fn vus_max(&self) -> u32 {
        match self {
            Self::ConstantVus { vus, .. }
            | Self::SharedIterations { vus, .. }
            | Self::IterationsPerVu { vus, .. } => *vus,
            Self::RampingVus { stages } => stages.iter().map(|stage| stage.target).max().unwrap_or(0),
        }
    }

    /// After this no iteration starts: the exact length of a timed model, the bound of an iteration model.
    pub(crate) fn duration(&self) -> Duration {
        match self {
            Self::ConstantVus { duration, .. } => *duration,
            Self::RampingVus { stages } => stages.iter().map(|stage| stage.duration).sum(),
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
            Self::ConstantVus { .. } | Self::RampingVus { .. } => None,
        }
    }

    /// One line for people, e.g. `ramping-vus 0→20→20→0 over 2m`.
    pub(crate) fn describe(&self) -> String {
        let executor = self.executor();
        match self {
            Self::ConstantVus { vus, duration } => {
                format!("{executor} {vus} for {}", duration::format(*duration))
            }
            Self::RampingVus { stages } => {
                let targets: String = stages.iter().map(|stage| format!("→{}", stage.target)).collect();
                format!("{executor} 0{targets} over {}", duration::format(self.duration()))
            }
            Self::SharedIterations { vus, iterations, .. } => {
                format!("{executor} {iterations} by {}", users(*vus))
            }
            Self::IterationsPerVu { vus, iterations, .. } => match vus {
                1 => format!("{executor} {iterations} by 1 user"),
                _ => format!("{executor} {iterations} by each of {}", users(*vus)),
            },
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
            Self::RampingVus { stages } if stages.is_empty() => {
                Err("a ramp without stages runs nothing; give at least one stage(duration, target)".into())
            }
            Self::RampingVus { .. } if self.vus_max() == 0 => {
                Err("every stage has the target 0; nothing would run".into())
            }
            Self::RampingVus { .. } if self.duration().is_zero() => {
                Err("the stages together last 0s; nothing would run".into())
            }
            Self::SharedIterations { iterations: 0, .. } | Self::IterationsPerVu { iterations: 0, .. } => {
                Err("the number of iterations is 0; at least 1 is needed".into())
            }
            Self::SharedIterations { vus, iterations, .. } if *iterations < u64::from(*vus) => {
                Err(format!("{iterations} iterations are fewer than {vus} users; some users would never run"))
            }
            _ => Ok(()),
        }
    }
}

fn users(count: u32) -> String {
    if count == 1 { "1 user".to_owned() } else { format!("{count} users") }
}

/// What flags, the environment or a profile put in place of a scenario's own load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LoadOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vus: Option<u32>,
    #[serde(with = "duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iterations: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stages: Vec<Stage>,
}

impl LoadOverride {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The model that runs when this stands over `own`.
    ///
    /// `--stage` makes a ramp; `--iterations` shared iterations by the given (else the model's own) users, or as many
    /// by each user where the scenario's own model counts per user; `--duration` constant users; `--vus` alone scales
    /// the scenario's own model.
    pub(crate) fn apply(&self, own: &LoadModel) -> Result<LoadModel, String> {
        let conflict = |a: &str, b: &str| Err(format!("{a} and {b} say different loads; give one of them"));
        let model = match (self.stages.is_empty(), self.iterations, self.duration, self.vus) {
            (false, Some(_), _, _) => return conflict("stages", "iterations"),
            (false, _, Some(_), _) => return conflict("stages", "a duration"),
            (false, _, _, Some(_)) => return conflict("stages", "a number of users"),
            (false, None, None, None) => LoadModel::RampingVus { stages: self.stages.clone() },
            (true, Some(iterations), duration, vus) => {
                let max_duration = duration.unwrap_or(DEFAULT_MAX_DURATION);
                let vus = vus.unwrap_or_else(|| own.vus_max());
                if matches!(own, LoadModel::IterationsPerVu { .. }) {
                    LoadModel::IterationsPerVu { vus, iterations, max_duration }
                } else {
                    let vus = vus.min(u32::try_from(iterations).unwrap_or(u32::MAX));
                    LoadModel::SharedIterations { vus, iterations, max_duration }
                }
            }
            (true, None, Some(duration), vus) => {
                LoadModel::ConstantVus { vus: vus.unwrap_or_else(|| own.vus_max()), duration }
            }
            (true, None, None, Some(vus)) => scale(own, vus),
            (true, None, None, None) => own.clone(),
        };
        model.check()?;
        Ok(model)
    }
}

fn scale(own: &LoadModel, vus: u32) -> LoadModel {
    let mut model = own.clone();
    let peak = u64::from(own.vus_max().max(1));
    match &mut model {
        LoadModel::ConstantVus { vus: own, .. } | LoadModel::IterationsPerVu { vus: own, .. } => *own = vus,
        LoadModel::SharedIterations { vus: own, iterations, .. } => {
            *own = vus;
            *iterations = (*iterations).max(u64::from(vus));
        }
        LoadModel::RampingVus { stages } => {
            for stage in stages {
                let scaled = u64::from(stage.target) * u64::from(vus);
                stage.target = u32::try_from(scaled.div_ceil(peak)).unwrap_or(u32::MAX);
            }
        }
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_model_describes_itself_in_one_line() {
        let stages = vec![Stage::new(secs(30), 20), Stage::new(secs(60), 20), Stage::new(secs(30), 0)];
        assert_eq!(LoadModel::RampingVus { stages }.describe(), "ramping-vus 0→20→20→0 over 2m");
        assert_eq!(
            LoadModel::ConstantVus { vus: 5, duration: secs(10) }.describe(),
            "constant-vus 5 for 10s"
        );
    }

    #[test]
    fn stages_are_read_and_nonsense_is_refused_by_name() {
        assert_eq!("30s:20".parse(), Ok(Stage::new(secs(30), 20)));
        assert_eq!("0s:0".parse(), Ok(Stage::new(secs(0), 0)));
        for text in ["", "30s", "30:20", "30s:", "30s:-1", "30s:many", "20:30s"] {
            assert!(text.parse::<Stage>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_override_replaces_the_load_it_speaks_of() {
        let own = LoadModel::ConstantVus { vus: 5, duration: secs(10) };
        let over = |edit: fn(&mut LoadOverride)| {
            let mut load = LoadOverride::default();
            edit(&mut load);
            load.apply(&own)
        };
        assert_eq!(over(|_| ()), Ok(own.clone()));
        assert_eq!(over(|l| l.vus = Some(7)), Ok(LoadModel::ConstantVus { vus: 7, duration: secs(10) }));
        assert_eq!(
            over(|l| l.duration = Some(secs(3))),
            Ok(LoadModel::ConstantVus { vus: 5, duration: secs(3) })
        );
        assert_eq!(
            over(|l| l.iterations = Some(50)),
            Ok(LoadModel::SharedIterations { vus: 5, iterations: 50, max_duration: DEFAULT_MAX_DURATION })
        );
        let stages = vec![Stage::new(secs(1), 2)];
        assert_eq!(
            LoadOverride { stages: stages.clone(), ..LoadOverride::default() }.apply(&own),
            Ok(LoadModel::RampingVus { stages })
        );
    }

    #[test]
    fn conflicting_overrides_are_refused_by_name() {
        let own = LoadModel::default();
        let stages = vec![Stage::new(secs(1), 2)];
        for (load, words) in [
            (
                LoadOverride { stages: stages.clone(), iterations: Some(1), ..LoadOverride::default() },
                "iterations",
            ),
            (
                LoadOverride { stages: stages.clone(), duration: Some(secs(1)), ..LoadOverride::default() },
                "duration",
            ),
            (LoadOverride { stages, vus: Some(1), ..LoadOverride::default() }, "users"),
        ] {
            let error = load.apply(&own).unwrap_err();
            assert!(error.contains("stages") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_model_that_would_run_nothing_is_refused() {
        for model in [
            LoadModel::ConstantVus { vus: 0, duration: secs(1) },
            LoadModel::ConstantVus { vus: 1, duration: secs(0) },
            LoadModel::RampingVus { stages: vec![] },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 0)] },
            LoadModel::RampingVus { stages: vec![Stage::new(secs(0), 1)] },
            LoadModel::SharedIterations { vus: 3, iterations: 2, max_duration: secs(1) },
            LoadModel::IterationsPerVu { vus: 3, iterations: 0, max_duration: secs(1) },
        ] {
            assert!(model.check().is_err(), "{model:?}");
        }
    }

    #[test]
    fn users_scale_a_ramp_in_proportion() {
        let own = LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 20), Stage::new(secs(1), 0)] };
        let load = LoadOverride { vus: Some(5), ..LoadOverride::default() };
        assert_eq!(
            load.apply(&own),
            Ok(LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 5), Stage::new(secs(1), 0)] })
        );
    }
}
