//! What layers put in place of scenarios' loads, and how one layer stands over another.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::Section;
use super::source::Sourced;
use crate::model::duration;
use crate::model::load::{LoadModel, LoadOverride, Rate, Stage};

/// The load that one layer asks of a scenario, or of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadSettings {
    pub(crate) vus: Option<Sourced<u32>>,
    pub(crate) duration: Option<Sourced<Duration>>,
    pub(crate) iterations: Option<Sourced<u64>>,
    pub(crate) stages: Option<Sourced<Vec<Stage>>>,
    pub(crate) rate: Option<Sourced<Rate>>,
    pub(crate) max_vus: Option<Sourced<u32>>,
}

impl LoadSettings {
    pub(super) fn read(section: Section<'_>) -> Result<Self, ConfigError> {
        let load = Self {
            vus: section.get("vus").map(|field| field.integer()).transpose()?,
            duration: section.get("duration").map(|field| field.parsed(duration::parse)).transpose()?,
            iterations: section.get("iterations").map(|field| field.integer()).transpose()?,
            stages: section.get("stages").map(|field| field.list(str::parse)).transpose()?,
            rate: section.get("rate").map(|field| field.parsed(str::parse)).transpose()?,
            max_vus: section.get("max-vus").map(|field| field.integer()).transpose()?,
        };
        section.finish()?;
        load.check()?;
        Ok(load)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses a layer that contradicts itself.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, users) in [("vus", &self.vus), ("max-vus", &self.max_vus)] {
            if let Some(Sourced { value: 0, source }) = users {
                let message = "the number of users is 0; at least 1 is needed".to_owned();
                return Err(ConfigError::Invalid { at: source.clone(), key: key.to_owned(), message });
            }
        }
        let parts = [
            ("stages", self.stages.as_ref().map(|it| &it.source)),
            ("rate", self.rate.as_ref().map(|it| &it.source)),
            ("iterations", self.iterations.as_ref().map(|it| &it.source)),
            ("duration", self.duration.as_ref().map(|it| &it.source)),
            ("vus", self.vus.as_ref().map(|it| &it.source)),
            ("max-vus", self.max_vus.as_ref().map(|it| &it.source)),
        ];
        let place = |name| parts.iter().find(|(part, _)| *part == name).and_then(|(_, source)| *source);
        for (first, others) in [
            ("stages", &["iterations", "duration", "vus", "rate", "max-vus"][..]),
            ("rate", &["iterations", "vus"]),
            ("max-vus", &["iterations", "vus"]),
        ] {
            for second in others {
                if let (Some(one), Some(other)) = (place(first), place(second)) {
                    let (first_at, second_at) = (Box::new(one.clone()), Box::new(other.clone()));
                    return Err(ConfigError::Conflict { first, first_at, second, second_at });
                }
            }
        }
        Ok(())
    }

    /// `self` where it says something, else `lower`.
    ///
    /// Stages, duration, iterations and rate say together what the load is, so that one of them in a higher layer takes
    /// the place of all of them in a lower one; but a rate and a duration go together. The number of users stays unless
    /// the higher layer names it.
    pub(super) fn over(self, lower: &Self) -> Self {
        if self.stages.is_some() {
            return self;
        }
        let counts_users = self.vus.is_some() || self.iterations.is_some();
        let max_vus = self.max_vus.clone().or_else(|| lower.max_vus.clone()).filter(|_| !counts_users);
        if self.rate.is_some() || lower.rate.is_some() && !counts_users {
            return Self {
                rate: self.rate.or_else(|| lower.rate.clone()),
                duration: self.duration.or_else(|| lower.duration.clone()),
                max_vus,
                ..Self::default()
            };
        }
        Self { max_vus, ..self.over_users(lower) }
    }

    /// The same between loads that are numbers of users.
    fn over_users(self, lower: &Self) -> Self {
        let shaped = self.duration.is_some() || self.iterations.is_some();
        match (&lower.stages, &self.vus) {
            (_, None) if !shaped => lower.clone(),
            (Some(stages), Some(vus)) if !shaped => {
                Self { stages: Some(scaled(stages, vus)), ..Self::default() }
            }
            (Some(stages), None) => Self { vus: most_users(stages), ..self },
            (None, None) => Self { vus: lower.vus.clone(), ..self },
            (None, Some(_)) if !shaped => {
                Self { duration: lower.duration.clone(), iterations: lower.iterations.clone(), ..self }
            }
            (_, Some(_)) => self,
        }
    }

    pub(super) fn to_override(&self) -> LoadOverride {
        fn value<T: Clone>(sourced: Option<&Sourced<T>>) -> Option<T> {
            sourced.map(|it| it.value.clone())
        }
        LoadOverride {
            vus: value(self.vus.as_ref()),
            duration: value(self.duration.as_ref()),
            iterations: value(self.iterations.as_ref()),
            stages: value(self.stages.as_ref()).unwrap_or_default(),
            rate: value(self.rate.as_ref()),
            max_vus: value(self.max_vus.as_ref()),
        }
    }
}

fn most_users(stages: &Sourced<Vec<Stage>>) -> Option<Sourced<u32>> {
    let most = stages.value.iter().map(Stage::users).max()?;
    Some(Sourced::new(most, stages.source.clone()))
}

/// The ramp with its peak moved to `vus`. A ramp or number that is refused stays as it is: the plan is checked whole
/// when it is applied.
fn scaled(stages: &Sourced<Vec<Stage>>, vus: &Sourced<u32>) -> Sourced<Vec<Stage>> {
    let ramp = LoadModel::RampingVus { stages: stages.value.clone() };
    let users = LoadOverride { vus: Some(vus.value), ..LoadOverride::default() };
    match users.apply(&ramp) {
        Ok(LoadModel::RampingVus { stages }) => Sourced::new(stages, vus.source.clone()),
        _ => stages.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;
    use proptest::prelude::*;

    const LOWER: Source = Source::Env { name: "lower" };
    const UPPER: Source = Source::Flag { name: "upper" };

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn settings(source: &Source, load: LoadOverride) -> LoadSettings {
        LoadSettings {
            vus: load.vus.map(|it| Sourced::new(it, source.clone())),
            duration: load.duration.map(|it| Sourced::new(it, source.clone())),
            iterations: load.iterations.map(|it| Sourced::new(it, source.clone())),
            stages: (!load.stages.is_empty()).then(|| Sourced::new(load.stages, source.clone())),
            rate: load.rate.map(|it| Sourced::new(it, source.clone())),
            max_vus: load.max_vus.map(|it| Sourced::new(it, source.clone())),
        }
    }

    fn merged(upper: LoadOverride, lower: LoadOverride) -> LoadOverride {
        settings(&UPPER, upper).over(&settings(&LOWER, lower)).to_override()
    }

    fn users(vus: u32) -> LoadOverride {
        LoadOverride { vus: Some(vus), ..LoadOverride::default() }
    }

    fn ramp() -> LoadOverride {
        let stages = vec![Stage::new(secs(1), 20.0), Stage::new(secs(2), 0.0)];
        LoadOverride { stages, ..LoadOverride::default() }
    }

    #[test]
    fn a_higher_layer_takes_the_place_of_a_lower_ones_load() {
        let timed = LoadOverride { duration: Some(secs(9)), ..LoadOverride::default() };
        let counted = LoadOverride { iterations: Some(7), ..users(3) };
        assert_eq!(merged(ramp(), counted.clone()), ramp());
        assert_eq!(merged(timed.clone(), ramp()), LoadOverride { duration: Some(secs(9)), ..users(20) });
        assert_eq!(merged(timed, counted), LoadOverride { duration: Some(secs(9)), ..users(3) });
    }

    #[test]
    fn users_alone_keep_the_lower_layers_load() {
        let counted = LoadOverride { iterations: Some(7), ..users(3) };
        assert_eq!(merged(users(5), counted), LoadOverride { iterations: Some(7), ..users(5) });
        let half = vec![Stage::new(secs(1), 10.0), Stage::new(secs(2), 0.0)];
        assert_eq!(merged(users(10), ramp()), LoadOverride { stages: half, ..LoadOverride::default() });
    }

    #[test]
    fn a_rate_keeps_the_duration_and_gives_way_to_users() {
        let per = secs(1);
        let rate = |count| LoadOverride { rate: Some(Rate { count, per }), ..LoadOverride::default() };
        let lasting = |seconds| LoadOverride { duration: Some(secs(seconds)), ..LoadOverride::default() };
        let most = LoadOverride { max_vus: Some(9), ..LoadOverride::default() };
        let lower = LoadOverride { duration: Some(secs(5)), max_vus: Some(7), ..rate(3.0) };
        assert_eq!(merged(rate(4.0), lower.clone()), LoadOverride { rate: rate(4.0).rate, ..lower.clone() });
        assert_eq!(
            merged(lasting(6), lower.clone()),
            LoadOverride { duration: Some(secs(6)), ..lower.clone() }
        );
        assert_eq!(merged(most.clone(), lower.clone()), LoadOverride { max_vus: Some(9), ..lower.clone() });
        assert_eq!(merged(users(2), lower), LoadOverride { vus: Some(2), ..lasting(5) });
        assert_eq!(
            merged(rate(4.0), LoadOverride { vus: Some(2), ..lasting(5) }),
            LoadOverride { duration: Some(secs(5)), ..rate(4.0) }
        );
        assert_eq!(merged(rate(4.0), ramp()), rate(4.0));
        assert_eq!(merged(most.clone(), lasting(5)), LoadOverride { duration: Some(secs(5)), ..most });
    }

    fn layer() -> impl Strategy<Value = LoadOverride> {
        let stages = proptest::collection::vec((1_u64..9, 1_u32..9), 1..3);
        let flat =
            (proptest::option::of(1_u32..9), proptest::option::of(1_u64..9), proptest::option::of(9_u64..99));
        prop_oneof![
            stages.prop_map(|stages| LoadOverride {
                stages: stages.into_iter().map(|(s, target)| Stage::new(secs(s), target.into())).collect(),
                ..LoadOverride::default()
            }),
            flat.prop_map(|(vus, duration, iterations)| LoadOverride {
                vus,
                duration: duration.map(secs),
                iterations,
                ..LoadOverride::default()
            }),
            (1_u32..9, 1_u64..9, proptest::option::of(1_u32..9)).prop_map(|(count, duration, max_vus)| {
                LoadOverride {
                    rate: Some(Rate { count: count.into(), per: secs(1) }),
                    duration: Some(secs(duration)),
                    max_vus,
                    ..LoadOverride::default()
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn layers_that_are_sound_alone_are_sound_together(upper in layer(), lower in layer()) {
            let both = merged(upper.clone(), lower.clone());
            prop_assert!(both.apply(&LoadModel::default()).is_ok(), "{both:?}");
            prop_assert_eq!(merged(LoadOverride::default(), lower.clone()), lower);
            prop_assert_eq!(merged(upper.clone(), LoadOverride::default()), upper);
        }
    }
}
