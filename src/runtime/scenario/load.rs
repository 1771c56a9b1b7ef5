//! The part of the builder that says what load a scenario is put under, and when.

use std::time::Duration;

use super::builder::Scenario;
use crate::model::load::{DEFAULT_MAX_DURATION, LoadModel, Open, Stage};

/// What is said beside the load model, in whatever order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Extent {
    open: Open,
    max_duration: Option<Duration>,
}

impl Scenario {
    /// `vus` users loop until `duration` has passed.
    #[must_use]
    pub fn constant_vus(mut self, vus: u32, duration: Duration) -> Self {
        self.load = LoadModel::ConstantVus { vus, duration };
        self
    }

    /// The number of users follows the stages in straight lines, from 0.
    #[must_use]
    pub fn ramping_vus(mut self, stages: impl IntoIterator<Item = Stage>) -> Self {
        self.load = LoadModel::RampingVus { stages: stages.into_iter().collect() };
        self
    }

    /// `iterations` iterations in all, each drawn from one pot by whichever of `vus` users is free.
    #[must_use]
    pub fn shared_iterations(mut self, vus: u32, iterations: u64) -> Self {
        self.load = LoadModel::SharedIterations { vus, iterations, max_duration: DEFAULT_MAX_DURATION };
        self
    }

    /// Each of `vus` users runs exactly `iterations` iterations.
    #[must_use]
    pub fn iterations_per_vu(mut self, vus: u32, iterations: u64) -> Self {
        self.load = LoadModel::IterationsPerVu { vus, iterations, max_duration: DEFAULT_MAX_DURATION };
        self
    }

    /// `rate` iterations start in each `per`, evenly spaced, for `duration`, whatever becomes of the earlier ones: an
    /// open model. The first starts at once.
    ///
    /// Each is run by a user who is free. Where none is, the iteration is *dropped*: it is counted, and ranks above all
    /// others in `iteration_response_time`, which begins when an iteration was due. See
    /// [`pre_allocated_vus`](Self::pre_allocated_vus) and [`max_vus`](Self::max_vus).
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # async fn flow(_: &Vu) -> Result { Ok(()) }
    /// # let _ =
    /// scenario("orders", flow)
    ///     .arrival_rate(100, secs(1), mins(5))
    ///     .max_vus(200)
    ///     .threshold("iteration_response_time", "p(99)<500ms")
    ///     .threshold("dropped_iterations", "count==0")
    /// # ;
    /// ```
    #[must_use]
    pub fn arrival_rate(mut self, rate: impl Into<f64>, per: Duration, duration: Duration) -> Self {
        self.load =
            LoadModel::ConstantArrivalRate { rate: rate.into(), per, duration, open: Open::default() };
        self
    }

    /// As [`arrival_rate`](Self::arrival_rate), with a rate that begins at `start` iterations in each `per` and follows
    /// the stages in straight lines. Exact over all stages: what one leaves of an iteration the next one carries on.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # async fn flow(_: &Vu) -> Result { Ok(()) }
    /// # let _ =
    /// scenario("orders", flow)
    ///     .ramping_arrival_rate(0, secs(1), [stage(mins(1), 100), stage(mins(5), 100), stage(secs(30), 0)])
    ///     .max_vus(200)
    /// # ;
    /// ```
    #[must_use]
    pub fn ramping_arrival_rate(
        mut self,
        start: impl Into<f64>,
        per: Duration,
        stages: impl IntoIterator<Item = Stage>,
    ) -> Self {
        let stages = stages.into_iter().collect();
        self.load = LoadModel::RampingArrivalRate { start: start.into(), per, stages, open: Open::default() };
        self
    }

    /// How many users of an arrival rate are set up before the load begins. Unless set: as many as arrive in one second
    /// of the highest rate, at least 10 and at most 1000, which is enough for iterations that last a second.
    #[must_use]
    pub fn pre_allocated_vus(mut self, vus: u32) -> Self {
        self.extent.open.pre_allocated_vus = Some(vus);
        self
    }

    /// How many users an arrival rate may have: beyond those that are pre-allocated they are added while the load goes
    /// on, one at a time, each after an iteration that found none free and was dropped. As many as are pre-allocated
    /// unless set.
    #[must_use]
    pub fn max_vus(mut self, vus: u32) -> Self {
        self.extent.open.max_vus = Some(vus);
        self
    }

    /// Iterations of an arrival rate start at random, as those of many people who know nothing of each other (a Poisson
    /// process), in place of evenly. The same `--seed` gives the same instants; the summary names it.
    #[must_use]
    pub fn poisson(mut self) -> Self {
        self.extent.open.poisson = true;
        self
    }

    /// How long a number of iterations may take: after that no further one starts. 10 minutes unless set.
    #[must_use]
    pub fn max_duration(mut self, at_most: Duration) -> Self {
        self.extent.max_duration = Some(at_most);
        self
    }

    /// The load begins so long after that of the others of the binary, or, with
    /// [`start_after`](Self::start_after), after the end of that one.
    #[must_use]
    pub fn start_time(mut self, after: Duration) -> Self {
        self.timing.start_time = after;
        self
    }

    /// The load begins when that of the scenario `other` of the same binary is wholly over.
    #[must_use]
    pub fn start_after(mut self, other: impl Into<String>) -> Self {
        self.timing.start_after = Some(other.into());
        self
    }

    /// Iterations that start, or are due, in the first so much time of the load are in no figure: not in the report, not
    /// in thresholds.
    #[must_use]
    pub fn warm_up(mut self, duration: Duration) -> Self {
        self.timing.warm_up = duration;
        self
    }

    /// How long iterations may go on after the end of the load before they are interrupted. 30 s unless set.
    #[must_use]
    pub fn graceful_stop(mut self, at_most: Duration) -> Self {
        self.graceful_stop = at_most;
        self
    }

    /// How long a user that a ramp takes away may go on with its iteration. 30 s unless set.
    #[must_use]
    pub fn graceful_ramp_down(mut self, at_most: Duration) -> Self {
        self.graceful_ramp_down = at_most;
        self
    }

    /// The whole load model, or what is wrong with it.
    pub(crate) fn model(&self) -> Result<LoadModel, String> {
        let Extent { open: said, max_duration: longest } = self.extent;
        let mut model = self.load.clone();
        match &mut model {
            LoadModel::ConstantArrivalRate { open, .. } | LoadModel::RampingArrivalRate { open, .. } => {
                *open = said;
            }
            LoadModel::SharedIterations { max_duration, .. }
            | LoadModel::IterationsPerVu { max_duration, .. } => {
                *max_duration = longest.unwrap_or(*max_duration);
            }
            LoadModel::ConstantVus { .. } | LoadModel::RampingVus { .. } => {}
        }
        let misplaced = [
            (
                "pre_allocated_vus",
                said.pre_allocated_vus.is_some() && model.open().is_none(),
                "an arrival rate",
            ),
            ("max_vus", said.max_vus.is_some() && model.open().is_none(), "an arrival rate"),
            ("poisson", said.poisson && model.open().is_none(), "an arrival rate"),
            ("max_duration", longest.is_some() && model.iterations().is_none(), "a number of iterations"),
        ];
        if let Some((method, _, what)) = misplaced.iter().find(|(_, is_misplaced, _)| *is_misplaced) {
            return Err(format!(".{method}(…) is for {what}, but this load is {}", model.describe()));
        }
        model.check()?;
        self.timing.check(&model)?;
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    async fn nothing(_: &Vu) -> Result {
        Ok(())
    }

    fn info(scenario: &Scenario) -> String {
        scenario.info().map_or_else(|why| why, |info| info.load.describe())
    }

    #[test]
    fn what_goes_with_a_load_may_be_said_before_or_after_it() {
        let before = scenario("s", nothing).max_vus(20).poisson().arrival_rate(5, secs(1), secs(9));
        let after = scenario("s", nothing).arrival_rate(5, secs(1), secs(9)).poisson().max_vus(20);
        let wanted = "constant-arrival-rate 5/s for 9s, at random, up to 20 users";
        assert_eq!((info(&before).as_str(), info(&after).as_str()), (wanted, wanted));
        let bounded = scenario("s", nothing).max_duration(secs(3)).shared_iterations(2, 9);
        assert_eq!(bounded.model().unwrap().duration(), secs(3));
    }

    #[test]
    fn what_does_not_go_with_a_load_is_refused_by_name() {
        let closed = || scenario("s", nothing).constant_vus(1, secs(9));
        for (scenario, words) in [
            (closed().max_vus(1), ".max_vus(…)"),
            (closed().pre_allocated_vus(1), ".pre_allocated_vus(…)"),
            (closed().poisson(), ".poisson(…)"),
            (closed().max_duration(secs(1)), ".max_duration(…)"),
            (closed().arrival_rate(1, secs(1), secs(1)).max_duration(secs(1)), ".max_duration(…)"),
            (closed().warm_up(secs(9)), "warm-up"),
            (closed().arrival_rate(-1, secs(1), secs(1)), "-1"),
            (closed().ramping_vus([stage(secs(1), 0.5)]), "0.5"),
        ] {
            let why = info(&scenario);
            assert!(why.starts_with("scenario `s`: ") && why.contains(words), "{why}");
        }
    }
}
