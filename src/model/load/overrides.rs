//! What flags, the environment or a profile put in place of a scenario's own load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DEFAULT_MAX_DURATION, LoadModel, Rate, Stage};
use crate::model::duration;

/// What flags, the environment or a profile put in place of a scenario's own load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_vus: Option<u32>,
}

impl LoadOverride {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The model that runs when this stands over `own`.
    ///
    /// `--stage` makes a ramp of users; `--rate` an arrival rate, or scales the one that is there; `--iterations`
    /// shared iterations by the given (else the model's own) users, or as many by each user where the scenario's own
    /// model counts per user; `--duration` a constant load; `--vus` alone scales the scenario's own model.
    pub(crate) fn apply(&self, own: &LoadModel) -> Result<LoadModel, String> {
        if let Some((first, second)) = self.conflict() {
            return Err(format!("{first} and {second} say different loads; give one of them"));
        }
        let mut model = match (self.rate, self.iterations, self.duration, self.vus) {
            _ if !self.stages.is_empty() => {
                if own.open().is_some() {
                    return Err(
                        "stages give numbers of users, but this load is a rate of arrivals; give a rate, \
                                or a number of users and a duration"
                            .into(),
                    );
                }
                LoadModel::RampingVus { stages: self.stages.clone() }
            }
            (Some(rate), _, duration, _) => with_rate(own, rate, duration)?,
            (None, Some(iterations), duration, vus) => {
                let max_duration = duration.unwrap_or(DEFAULT_MAX_DURATION);
                let vus = vus.unwrap_or_else(|| own.vus_max());
                if matches!(own, LoadModel::IterationsPerVu { .. }) {
                    LoadModel::IterationsPerVu { vus, iterations, max_duration }
                } else {
                    let vus = vus.min(u32::try_from(iterations).unwrap_or(u32::MAX));
                    LoadModel::SharedIterations { vus, iterations, max_duration }
                }
            }
            (None, None, Some(duration), Some(vus)) => LoadModel::ConstantVus { vus, duration },
            (None, None, Some(duration), None) => lasting(own, duration),
            (None, None, None, Some(_)) if own.open().is_some() => {
                return Err(
                    "this load is a rate of arrivals, of which a number of users says nothing; give \
                            max-vus, or a duration as well for users who loop"
                        .into(),
                );
            }
            (None, None, None, Some(vus)) => scale(own, vus),
            (None, None, None, None) => own.clone(),
        };
        if let Some(most) = self.max_vus {
            let (LoadModel::ConstantArrivalRate { open, .. } | LoadModel::RampingArrivalRate { open, .. }) =
                &mut model
            else {
                return Err(
                    "max-vus bounds the users of an arrival rate, but this load is a number of users; \
                            give vus"
                        .into(),
                );
            };
            open.max_vus = Some(most);
            open.pre_allocated_vus = open.pre_allocated_vus.map(|users| users.min(most));
        }
        model.check()?;
        Ok(model)
    }

    /// The names of two parts that contradict each other.
    fn conflict(&self) -> Option<(&'static str, &'static str)> {
        let parts = [
            ("stages", !self.stages.is_empty()),
            ("a rate", self.rate.is_some()),
            ("iterations", self.iterations.is_some()),
            ("a number of users", self.vus.is_some()),
            ("max-vus", self.max_vus.is_some()),
            ("a duration", self.duration.is_some()),
        ];
        let given = |name| parts.iter().any(|(part, given)| *part == name && *given);
        [
            ("stages", "iterations"),
            ("stages", "a duration"),
            ("stages", "a number of users"),
            ("stages", "a rate"),
            ("stages", "max-vus"),
            ("a rate", "iterations"),
            ("a rate", "a number of users"),
            ("max-vus", "iterations"),
            ("max-vus", "a number of users"),
        ]
        .into_iter()
        .find(|(first, second)| given(*first) && given(*second))
    }
}

/// A constant load of so long, as high as the model's highest.
fn lasting(own: &LoadModel, duration: Duration) -> LoadModel {
    match own {
        LoadModel::ConstantArrivalRate { rate, per, open, .. } => {
            LoadModel::ConstantArrivalRate { rate: *rate, per: *per, duration, open: *open }
        }
        LoadModel::RampingArrivalRate { start, per, stages, open } => {
            let rate = stages.iter().map(|stage| stage.target).fold(*start, f64::max);
            LoadModel::ConstantArrivalRate { rate, per: *per, duration, open: *open }
        }
        _ => LoadModel::ConstantVus { vus: own.vus_max(), duration },
    }
}

/// The model with arrivals at `rate`: a ramp of arrivals keeps its shape, and has its highest rate there.
fn with_rate(own: &LoadModel, rate: Rate, duration: Option<Duration>) -> Result<LoadModel, String> {
    rate.check()?;
    let Rate { count, per } = rate;
    let open = own.open().copied().unwrap_or_default();
    let duration = match (duration, own) {
        (None, LoadModel::RampingArrivalRate { start, stages, .. }) => {
            let highest = stages.iter().map(|stage| stage.target).fold(*start, f64::max);
            let scaled = |target: f64| target * count / highest;
            let stages = stages.iter().map(|stage| Stage::new(stage.duration, scaled(stage.target)));
            let stages = stages.collect();
            return Ok(LoadModel::RampingArrivalRate { start: scaled(*start), per, stages, open });
        }
        (None, LoadModel::SharedIterations { .. } | LoadModel::IterationsPerVu { .. }) => {
            return Err("a rate needs a duration, which this load has none of; give both".into());
        }
        (None, _) => own.duration(),
        (Some(duration), _) => duration,
    };
    Ok(LoadModel::ConstantArrivalRate { rate: count, per, duration, open })
}

/// The model with its highest number of users at `vus`.
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
                let scaled = u64::from(stage.users()) * u64::from(vus);
                stage.target = u32::try_from(scaled.div_ceil(peak)).unwrap_or(u32::MAX).into();
            }
        }
        LoadModel::ConstantArrivalRate { .. } | LoadModel::RampingArrivalRate { .. } => {}
    }
    model
}

#[cfg(test)]
mod tests {
    use super::super::Open;
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
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
        let stages = vec![Stage::new(secs(1), 2.0)];
        assert_eq!(
            LoadOverride { stages: stages.clone(), ..LoadOverride::default() }.apply(&own),
            Ok(LoadModel::RampingVus { stages })
        );
    }

    #[test]
    fn conflicting_overrides_are_refused_by_name() {
        let own = LoadModel::default();
        let stages = vec![Stage::new(secs(1), 2.0)];
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
    fn users_scale_a_ramp_in_proportion() {
        let own = LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 20.0), Stage::new(secs(1), 0.0)] };
        let load = LoadOverride { vus: Some(5), ..LoadOverride::default() };
        assert_eq!(
            load.apply(&own),
            Ok(LoadModel::RampingVus { stages: vec![Stage::new(secs(1), 5.0), Stage::new(secs(1), 0.0)] })
        );
    }

    fn hundred() -> LoadModel {
        LoadModel::ConstantArrivalRate {
            rate: 100.0,
            per: secs(1),
            duration: secs(10),
            open: Open { pre_allocated_vus: Some(50), ..Open::default() },
        }
    }

    #[test]
    fn a_rate_takes_the_place_of_the_load_or_scales_it() {
        let rate = |count, per, duration| {
            let rate = Some(Rate { count, per });
            LoadOverride { duration, rate, ..LoadOverride::default() }
        };
        let constant =
            |rate, per, duration, open| LoadModel::ConstantArrivalRate { rate, per, duration, open };
        let open = *hundred().open().unwrap();
        assert_eq!(rate(5.0, secs(60), None).apply(&hundred()), Ok(constant(5.0, secs(60), secs(10), open)));
        let closed = LoadModel::ConstantVus { vus: 3, duration: secs(4) };
        assert_eq!(
            rate(5.0, secs(1), None).apply(&closed),
            Ok(constant(5.0, secs(1), secs(4), Open::default()))
        );
        assert_eq!(
            rate(5.0, secs(1), Some(secs(2))).apply(&LoadModel::default()),
            Ok(constant(5.0, secs(1), secs(2), Open::default()))
        );
        assert!(rate(5.0, secs(1), None).apply(&LoadModel::default()).unwrap_err().contains("duration"));
        let ramp = |start, per, targets: [f64; 2]| LoadModel::RampingArrivalRate {
            start,
            per,
            stages: targets.map(|target| Stage::new(secs(1), target)).to_vec(),
            open,
        };
        let own = ramp(10.0, secs(1), [40.0, 0.0]);
        assert_eq!(rate(20.0, secs(60), None).apply(&own), Ok(ramp(5.0, secs(60), [20.0, 0.0])));
        let lasting = LoadOverride { duration: Some(secs(3)), ..LoadOverride::default() };
        assert_eq!(lasting.apply(&own), Ok(constant(40.0, secs(1), secs(3), open)));
        assert_eq!(lasting.apply(&hundred()), Ok(constant(100.0, secs(1), secs(3), open)));
    }

    #[test]
    fn the_most_users_of_a_rate_may_be_given_and_of_nothing_else() {
        let most = LoadOverride { max_vus: Some(20), ..LoadOverride::default() };
        let model = most.apply(&hundred()).unwrap();
        assert_eq!((model.vus_at_first(), model.vus_max()), (20, 20));
        assert!(most.apply(&LoadModel::default()).unwrap_err().contains("max-vus"));
    }

    #[test]
    fn what_says_nothing_of_a_rate_is_refused_over_one() {
        let vus = LoadOverride { vus: Some(1), ..LoadOverride::default() };
        assert!(vus.apply(&hundred()).unwrap_err().contains("max-vus"));
        let stages = LoadOverride { stages: vec![Stage::new(secs(1), 1.0)], ..LoadOverride::default() };
        assert!(stages.apply(&hundred()).unwrap_err().contains("rate"));
        let closed = LoadOverride { vus: Some(2), duration: Some(secs(1)), ..LoadOverride::default() };
        assert_eq!(closed.apply(&hundred()), Ok(LoadModel::ConstantVus { vus: 2, duration: secs(1) }));
    }

    #[test]
    fn a_rate_and_what_contradicts_it_are_refused_by_name() {
        let rate = LoadOverride { rate: Some(Rate { count: 1.0, per: secs(1) }), ..LoadOverride::default() };
        let most = LoadOverride { max_vus: Some(1), ..LoadOverride::default() };
        for (load, words) in [
            (LoadOverride { vus: Some(1), ..rate.clone() }, ["a rate", "a number of users"]),
            (LoadOverride { iterations: Some(1), ..rate.clone() }, ["a rate", "iterations"]),
            (LoadOverride { stages: vec![Stage::new(secs(1), 1.0)], ..rate }, ["a rate", "stages"]),
            (LoadOverride { vus: Some(1), ..most }, ["max-vus", "a number of users"]),
        ] {
            let error = load.apply(&hundred()).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
