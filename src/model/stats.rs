//! Counters and distributions: of an interval, or, merged, of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::custom::MetricStats;
use super::event::Aborted;
use super::flow::FlowStats;
use super::latency::Latency;
use super::phases::{HttpPhase, PhaseTimes, Phases};

/// What kind of work a row measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepKind {
    /// An HTTP request of the built-in client.
    Request,
    /// Any other work, timed by `vu.step`.
    Step,
}

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
    /// The generator itself was stopped when it fell due.
    Generator,
}

/// A row's name within its scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct StepKey {
    pub(crate) kind: StepKind,
    pub(crate) name: String,
}

/// What is known of one step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StepStats {
    /// Where the step stands in its scenario: the rank of its first appearance.
    pub(crate) rank: u32,
    /// Responses and transport errors; what was interrupted is apart.
    pub(crate) count: u64,
    /// Transport errors, 5xx, and statuses that the step does not expect; 429s are apart.
    pub(crate) errors: u64,
    /// Responses with the status 429.
    pub(crate) rate_limited: u64,
    /// Cut off by the end of the run.
    pub(crate) interrupted: u64,
    /// k6's `http_req_failed`: not 200 to 399 (or not what the request expects), or a transport error.
    pub(crate) failed: u64,
    /// Responses by status.
    pub(crate) status: BTreeMap<u16, u64>,
    /// Transport errors by class (`timeout`, `connect_refused`, …).
    pub(crate) error_types: BTreeMap<String, u64>,
    /// Send called to last body byte, of expected responses; what a timeout or the end cut off is censored.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) latency: Latency,
    /// First byte sent to last byte received, of the same requests. Requests only.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub(crate) duration: Latency,
    /// What the time of expected responses consists of.
    #[serde(skip_serializing_if = "Phases::is_empty")]
    pub(crate) phases: Phases,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Requests that were sent once more, because the connection was closed before an answer came.
    pub(crate) retries: u64,
    /// Requests that the generator itself could not send, for want of addresses or descriptors. They say nothing of the
    /// server and are in no other count; their classes are in `error_types`.
    pub(crate) generator_errors: u64,
}

impl StepStats {
    /// Takes the times of an expected response in.
    pub(crate) fn respond(&mut self, total: Duration, phases: &PhaseTimes) {
        self.latency.record(total);
        self.duration.record(phases.duration());
        self.phases.record(phases);
    }

    /// Takes in what was seen of a request that was cut off.
    pub(crate) fn cut_off(&mut self, total: Duration, phases: &PhaseTimes) {
        self.latency.record_censored(total);
        self.duration.record_censored(phases.duration());
    }

    /// How long the phase took, over the expected responses.
    pub(crate) fn phase(&self, phase: HttpPhase) -> Latency {
        self.phases.of(phase, self.duration.complete_count())
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let untouched = self.count + self.interrupted + self.generator_errors == 0;
        self.rank = if untouched { other.rank } else { self.rank.min(other.rank) };
        self.count += other.count;
        self.errors += other.errors;
        self.rate_limited += other.rate_limited;
        self.interrupted += other.interrupted;
        self.failed += other.failed;
        add(&mut self.status, &other.status);
        add(&mut self.error_types, &other.error_types);
        self.latency.merge(&other.latency);
        self.duration.merge(&other.duration);
        self.phases.merge(&other.phases);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.retries += other.retries;
        self.generator_errors += other.generator_errors;
    }
}

fn add<K: Ord + Clone>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(key.clone()).or_default() += count;
    }
}

/// How often a check passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckStats {
    pub(crate) passes: u64,
    pub(crate) fails: u64,
}

impl CheckStats {
    pub(crate) fn add(&mut self, passed: bool) {
        self.passes += u64::from(passed);
        self.fails += u64::from(!passed);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.passes += other.passes;
        self.fails += other.fails;
    }
}

/// The samples that one selector picks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Series {
    /// Requests, or timed steps.
    Work(StepStats),
    Iterations(Box<ScenarioStats>),
    Checks(CheckStats),
    Metric(MetricStats),
}

impl Series {
    /// Of requests or timed steps, before the first.
    pub(crate) fn work() -> Self {
        Self::Work(StepStats::default())
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

/// How many distinct error messages are kept word for word; the rest are counted together.
pub(crate) const DISTINCT_ERRORS: usize = 20;

/// The first distinct error messages and how often each came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorTally {
    pub(crate) messages: Vec<(String, u64)>,
    /// Errors whose message came after the first [`DISTINCT_ERRORS`].
    pub(crate) other: u64,
}

impl ErrorTally {
    pub(crate) fn add(&mut self, message: &str, count: u64) {
        if let Some((_, known)) = self.messages.iter_mut().find(|(known, _)| known == message) {
            *known += count;
        } else if self.messages.len() < DISTINCT_ERRORS {
            self.messages.push((message.to_owned(), count));
        } else {
            self.other += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (message, count) in &other.messages {
            self.add(message, *count);
        }
        self.other += other.other;
    }

    /// The message that came most often.
    pub(crate) fn commonest(&self) -> Option<&str> {
        self.messages.iter().max_by_key(|(_, count)| *count).map(|(message, _)| message.as_str())
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
    /// Users running at the end of the interval.
    pub(crate) vus: u32,
    /// The most users at a time.
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
        self.vus_max = self.vus_max.max(other.vus_max).max(other.vus);
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

/// Everything that was measured between two swaps of the workers' shards.
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
            into.entry(name.clone()).or_default().merge(stats);
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
        let mut scenario = ScenarioStats { iterations: 2, vus: 3, ..ScenarioStats::default() };
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

    #[test]
    fn only_the_first_distinct_messages_are_kept_and_none_is_lost() {
        let mut tally = ErrorTally::default();
        for n in 0..DISTINCT_ERRORS + 5 {
            tally.add(&format!("error {n}"), 1);
        }
        tally.add("error 3", 9);
        assert_eq!(tally.messages.len(), DISTINCT_ERRORS);
        assert_eq!(tally.other, 5);
        assert_eq!(tally.commonest(), Some("error 3"));
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
