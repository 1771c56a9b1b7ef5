//! Counters and distributions: of an interval, or, merged, of a run.

mod step;
mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::step::{CheckStats, StepKey, StepKind, StepStats};
pub(crate) use self::tally::ErrorTally;
use super::custom::MetricStats;
use super::event::Aborted;
use super::flow::FlowStats;
use super::latency::Latency;

/// Which part of a scenario a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// A few iterations alone, before the load.
    Reference,
    /// The beginning of the load, where a scenario asks for it to be left out: in no figure.
    #[serde(rename = "warm-up")]
    WarmUp,
    /// The load itself: all figures but the unloaded ones.
    Load,
}

impl Phase {
    /// The name in spans and events.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::WarmUp => "warm-up",
            Self::Load => "load",
        }
    }

    /// The phase of that name.
    #[cfg(feature = "cli")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Reference, Self::WarmUp, Self::Load].into_iter().find(|phase| phase.as_str() == name)
    }
}

/// Why a scheduled arrival did not become an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DropCause {
    /// No user was free: the system is slow, or the pool too small.
    Pool,
    /// The generator itself did not run when it fell due: stopped, or without a CPU.
    Generator,
}

/// Adds counts to counts.
fn add<K: Ord + Clone>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(key.clone()).or_default() += count;
    }
}

/// The samples that one selector picks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Series {
    /// Requests, or timed steps.
    Work(Box<StepStats>),
    Iterations(Box<ScenarioStats>),
    Checks(CheckStats),
    Metric(MetricStats),
}

impl Series {
    /// Of requests or timed steps, before the first.
    pub(crate) fn work() -> Self {
        Self::Work(Box::default())
    }

    /// Of iterations, before the first.
    pub(crate) fn iterations() -> Self {
        Self::Iterations(Box::default())
    }

    /// Two series of one number are of one kind: the thresholds number them.
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Work(own), Self::Work(other)) => own.merge(other),
            (Self::Iterations(own), Self::Iterations(other)) => own.merge(other),
            (Self::Checks(own), Self::Checks(other)) => own.merge(*other),
            (Self::Metric(own), Self::Metric(other)) => own.merge(other),
            _ => {}
        }
    }
}

/// A stretch of a phase's time, in nanoseconds from the phase's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Span {
    /// `None` where it has no length.
    pub(crate) fn new(from: Duration, to: Duration) -> Option<Self> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        (from < to).then(|| Self { from_ns: nanos(from), to_ns: nanos(to) })
    }

    /// The shortest that holds both.
    fn hull(self, other: Self) -> Self {
        Self { from_ns: self.from_ns.min(other.from_ns), to_ns: self.to_ns.max(other.to_ns) }
    }

    pub(crate) fn length(self) -> Duration {
        Duration::from_nanos(self.to_ns.saturating_sub(self.from_ns))
    }
}

/// How long at least one of them lasts.
fn union(spans: impl Iterator<Item = Span>) -> Duration {
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_by_key(|span| span.from_ns);
    let (mut length, mut seen) = (0, 0);
    for span in spans {
        length += span.to_ns.saturating_sub(span.from_ns.max(seen));
        seen = seen.max(span.to_ns);
    }
    Duration::from_nanos(length)
}

/// What is known of one scenario.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ScenarioStats {
    /// Iterations that ended: well, with an error, or by a panic.
    pub(crate) iterations: u64,
    /// Of those, the ones that returned an error or panicked.
    pub(crate) failed_iterations: u64,
    pub(crate) panics: u64,
    /// Arrivals that did not become iterations: the sum of `dropped`.
    pub(crate) dropped_iterations: u64,
    /// The same by cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) dropped: BTreeMap<DropCause, u64>,
    /// Cut off by the end of the run, or of their user.
    pub(crate) interrupted_iterations: u64,
    pub(crate) errors: ErrorTally,
    /// Start to end of each iteration; the interrupted ones are censored.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) iteration: Latency,
    /// Open models: scheduled instant to end of each iteration. Interrupted ones are censored, and dropped arrivals
    /// rank above all others.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) response: Latency,
    /// Open models: scheduled instant to actual start.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) lag: Latency,
    /// Time that interrupted iterations had run for, in nanoseconds.
    pub(crate) interrupted_ns: u64,
    /// Time that users spent in the iteration loop, all users together, in nanoseconds.
    pub(crate) vu_ns: u64,
    /// The time that the figures are of: from the scenario's begin, or the end of its warm-up, to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Span>,
    /// Users running at the end of the interval, or when the load's time was up in it.
    pub(crate) vus: u32,
    /// The most users at work at a time, while the scenario is measured: those of its warm-up are not among them.
    pub(crate) vus_max: u32,
    #[serde(with = "step_list")]
    pub(crate) steps: BTreeMap<StepKey, StepStats>,
    pub(crate) checks: BTreeMap<String, CheckStats>,
    /// The author's own metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metrics: BTreeMap<String, MetricStats>,
    /// What thresholds ask for by tags that no row has, by the number of the series.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tagged: BTreeMap<u32, Series>,
    /// Of a mix: its flows by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) flows: BTreeMap<String, FlowStats>,
    /// Iterations that were considered for tracing, and those that were traced.
    pub(crate) iterations_seen: u64,
    pub(crate) iterations_traced: u64,
}

impl ScenarioStats {
    /// Adds a later interval (or another worker's same interval) to this one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.failed_iterations += other.failed_iterations;
        self.panics += other.panics;
        self.dropped_iterations += other.dropped_iterations;
        add(&mut self.dropped, &other.dropped);
        self.interrupted_iterations += other.interrupted_iterations;
        self.errors.merge(&other.errors);
        self.iteration.merge(&other.iteration);
        self.response.merge(&other.response);
        self.lag.merge(&other.lag);
        self.interrupted_ns += other.interrupted_ns;
        self.vu_ns += other.vu_ns;
        self.measured = self.measured.into_iter().chain(other.measured).reduce(Span::hull);
        self.vus = other.vus;
        self.vus_max = self.vus_max.max(other.vus_max);
        self.iterations_seen += other.iterations_seen;
        self.iterations_traced += other.iterations_traced;
        for (key, stats) in &other.steps {
            self.steps.entry(key.clone()).or_default().merge(stats);
        }
        for (name, flow) in &other.flows {
            self.flows.entry(name.clone()).or_default().merge(flow);
        }
        for (name, check) in &other.checks {
            let own = self.checks.entry(name.clone()).or_default();
            own.merge(*check);
        }
        for (name, metric) in &other.metrics {
            self.metrics.entry(name.clone()).or_default().merge(metric);
        }
        for (number, series) in &other.tagged {
            match self.tagged.get_mut(number) {
                Some(own) => own.merge(series),
                None => drop(self.tagged.insert(*number, series.clone())),
            }
        }
    }

    /// Nothing happened.
    pub(crate) fn is_idle(&self) -> bool {
        self.iterations + self.interrupted_iterations + self.dropped_iterations == 0
            && self.steps.is_empty()
            && self.checks.is_empty()
            && self.vu_ns == 0
    }

    /// Counts arrivals that did not become iterations.
    pub(crate) fn drop_arrivals(&mut self, cause: DropCause, count: u64) {
        if count > 0 {
            self.dropped_iterations += count;
            *self.dropped.entry(cause).or_default() += count;
            self.response.record_never(count);
        }
    }

    /// The requests of all steps together.
    pub(crate) fn requests(&self) -> StepStats {
        let mut total = StepStats::default();
        for (key, stats) in &self.steps {
            if key.kind == StepKind::Request {
                total.merge(stats);
            }
        }
        total
    }
}

mod step_list {
    use super::{BTreeMap, StepKey, StepStats};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        steps: &BTreeMap<StepKey, StepStats>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(steps)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<StepKey, StepStats>, D::Error> {
        Ok(Vec::<(StepKey, StepStats)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Everything that was measured between two swaps of the workers' shards. A sample belongs to the interval in which it
/// ended, in open models too: an interval is told at once, and what is still under way then may take as long as it likes.
/// What a worker could not hand over in time is in a later one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) phase: Phase,
    /// From the start of the phase, on the monotonic clock.
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) scenarios: BTreeMap<String, ScenarioStats>,
}

impl Interval {
    /// Takes a later interval of the same phase in.
    pub(crate) fn extend(&mut self, later: &Self) {
        self.end_ms = later.end_ms;
        for (name, stats) in &later.scenarios {
            self.scenarios.entry(name.clone()).or_default().merge(stats);
        }
    }
}

/// All that was measured in one scenario process, or in a whole run (then the keys are made unique by the package).
#[derive(Debug, Clone, Default)]
pub(crate) struct RunStats {
    pub(crate) reference: BTreeMap<String, ScenarioStats>,
    /// What is left out of the figures.
    pub(crate) warm_up: BTreeMap<String, ScenarioStats>,
    pub(crate) load: BTreeMap<String, ScenarioStats>,
    /// How long the load was measured so far: while at least one scenario was.
    pub(crate) load_time: Duration,
    /// The thresholds that ended the run.
    pub(crate) aborted: Vec<Aborted>,
}

impl RunStats {
    pub(crate) fn add(&mut self, interval: &Interval) {
        let into = match interval.phase {
            Phase::Reference => &mut self.reference,
            Phase::WarmUp => &mut self.warm_up,
            Phase::Load => &mut self.load,
        };
        for (name, stats) in &interval.scenarios {
            let own = into.entry(name.clone()).or_default();
            let ran = own.vus;
            own.merge(stats);
            // The last intervals are told when all users have ended: what counts is how many ran last. Where that was
            // over before anybody looked, it is how many there were.
            if own.vus == 0 {
                own.vus = if ran == 0 { stats.vus_max } else { ran };
            }
        }
        if interval.phase == Phase::Load {
            let spans = self.load.values().filter_map(|stats| stats.measured);
            self.load_time = match union(spans) {
                // Nothing is measured yet: the time that passed.
                Duration::ZERO => self.load_time.max(Duration::from_millis(interval.end_ms)),
                measured => measured,
            };
        }
    }

    /// How long one scenario was measured.
    pub(crate) fn measured(&self, scenario: &str) -> Duration {
        let span = self.load.get(scenario).and_then(|stats| stats.measured);
        span.map_or(self.load_time, Span::length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_and_the_wire_keeps_them() {
        let mut scenario = ScenarioStats { iterations: 2, vus: 3, vus_max: 3, ..ScenarioStats::default() };
        let mut step = StepStats { count: 4, ..StepStats::default() };
        step.status.insert(201, 4);
        step.latency.record(Duration::from_millis(5));
        scenario.steps.insert(StepKey { kind: StepKind::Request, name: "POST /a".into() }, step);
        scenario.checks.insert("ok".into(), CheckStats { passes: 1, fails: 2 });
        scenario.response.record(Duration::from_millis(7));
        scenario.lag.record(Duration::from_millis(1));
        scenario.drop_arrivals(DropCause::Pool, 3);
        scenario.drop_arrivals(DropCause::Generator, 0);
        let interval = |phase, start_ms, end_ms| Interval {
            phase,
            start_ms,
            end_ms,
            scenarios: BTreeMap::from([("s".to_owned(), scenario.clone())]),
        };
        let mut run = RunStats::default();
        for interval in [
            interval(Phase::Reference, 0, 500),
            interval(Phase::WarmUp, 0, 5000),
            interval(Phase::Load, 0, 1000),
            interval(Phase::Load, 1000, 1900),
        ] {
            run.add(&serde_json::from_str(&serde_json::to_string(&interval).unwrap()).unwrap());
        }
        let load = &run.load["s"];
        assert_eq!((load.iterations, load.vus, load.vus_max), (4, 3, 3));
        assert_eq!(load.requests().status, BTreeMap::from([(201, 8)]));
        assert_eq!(load.checks["ok"], CheckStats { passes: 2, fails: 4 });
        assert_eq!(run.load_time, Duration::from_millis(1900));
        assert_eq!((run.reference["s"].iterations, run.warm_up["s"].iterations), (2, 2));
        assert_eq!((load.response.count(), load.lag.count()), (8, 2));
        assert_eq!((load.dropped_iterations, &load.dropped), (6, &BTreeMap::from([(DropCause::Pool, 6)])));
        assert!(load.response.percentile(99.0).unwrap().at_least);
    }

    #[test]
    fn a_run_keeps_the_users_of_the_last_interval_in_which_there_were_some() {
        let mut run = RunStats::default();
        for (vus, then) in [(0, 0), (4, 4), (3, 3), (0, 3), (0, 3)] {
            run.add(&users(vus, vus));
            assert_eq!(run.load["s"].vus, then);
        }
    }

    #[test]
    fn users_that_nobody_saw_at_the_end_of_an_interval_were_there() {
        let mut run = RunStats::default();
        for (vus, vus_max, then) in [(0, 0, 0), (0, 5, 5), (0, 2, 5)] {
            run.add(&users(vus, vus_max));
            assert_eq!(run.load["s"].vus, then);
        }
    }

    fn users(vus: u32, vus_max: u32) -> Interval {
        let stats = ScenarioStats { vus, vus_max, ..ScenarioStats::default() };
        let scenarios = BTreeMap::from([("s".to_owned(), stats)]);
        Interval { phase: Phase::Load, start_ms: 0, end_ms: 1000, scenarios }
    }

    #[test]
    fn a_run_is_measured_while_at_least_one_of_its_scenarios_is() {
        let seconds = Duration::from_secs;
        let of = |spans: &[(&str, u64, u64)]| {
            let stats = |from, to| ScenarioStats {
                measured: Span::new(seconds(from), seconds(to)),
                ..ScenarioStats::default()
            };
            let scenarios = spans.iter().map(|(name, from, to)| ((*name).to_owned(), stats(*from, *to)));
            Interval { phase: Phase::Load, start_ms: 0, end_ms: 9000, scenarios: scenarios.collect() }
        };
        let mut run = RunStats::default();
        run.add(&of(&[("a", 0, 0)]));
        assert_eq!((run.load_time, run.measured("a")), (seconds(9), seconds(9)), "nothing is known yet");
        run.add(&of(&[("a", 1, 2), ("b", 2, 2)]));
        assert_eq!((run.load_time, run.measured("a")), (seconds(1), seconds(1)));
        run.add(&of(&[("a", 1, 4), ("b", 2, 3), ("c", 6, 7)]));
        assert_eq!(run.load_time, seconds(4));
        assert_eq!([run.measured("a"), run.measured("b"), run.measured("c")], [3, 1, 1].map(seconds));
    }

    proptest::proptest! {
        #[test]
        fn a_percentile_is_one_of_all_requests_and_no_mean_of_intervals_or_steps(
            intervals in proptest::collection::vec(
                proptest::collection::vec((0_usize..3, 1_u64..60_000_000), 0..40), 1..12
            ),
            percent in 0.0_f64..=100.0,
        ) {
            let mut run = RunStats::default();
            let mut all = Latency::default();
            for (second, samples) in intervals.iter().enumerate() {
                let mut scenario = ScenarioStats::default();
                for (step, micros) in samples {
                    let key = StepKey { kind: StepKind::Request, name: format!("GET /{step}") };
                    let took = Duration::from_micros(*micros);
                    scenario.steps.entry(key).or_default().latency.record(took);
                    all.record(took);
                }
                let start_ms = 1000 * second as u64;
                let scenarios = BTreeMap::from([("s".to_owned(), scenario)]);
                run.add(&Interval { phase: Phase::Load, start_ms, end_ms: start_ms + 1000, scenarios });
            }
            let merged = run.load["s"].requests().latency;
            proptest::prop_assert_eq!(merged.count(), all.count());
            proptest::prop_assert_eq!(merged.percentile(percent), all.percentile(percent));
        }
    }
}
