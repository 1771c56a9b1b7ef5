//! Puts a [`Summary`] together from what was measured: the one place where figures of the report are computed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::event::Warning;
use super::flow::FlowInfo;
use super::health::{self, Signs};
use super::id::RunId;
use super::metric_figures;
use super::phases::HttpPhase;
use super::plan::ScenarioInfo;
use super::stats::{ErrorTally, RunStats, ScenarioStats, StepKey, StepKind, StepStats};
use super::success::{OTHER_MESSAGES, no_success, succeeded};
use super::summary::{
    Attribution, Check, ErrorCount, Flow, Health, LatencyMs, PhaseMs, Run, SCHEMA, Scenario, Step, Summary,
    Threshold, Totals, Trace, Unloaded, WarmUp, millis,
};
use super::threshold;
use super::verdict::{Outcome, decide};

/// What is known of a run before it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFacts {
    pub(crate) id: RunId,
    pub(crate) started_unix_ns: u64,
    pub(crate) commit: Option<String>,
    pub(crate) dirty: Option<bool>,
    /// Without user information and query values.
    pub(crate) base_url: Option<String>,
    /// As it was asked for.
    pub(crate) seed: Option<u64>,
}

/// What one scenario binary measured. Binaries of a run go one after the other, scenarios of a binary together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinaryRun<'a> {
    pub(crate) package: &'a str,
    /// The scenarios that ran, with the load that they ran under.
    pub(crate) scenarios: &'a [ScenarioInfo],
    pub(crate) stats: &'a RunStats,
    pub(crate) signs: &'a Signs,
}

/// What became of the requests that were traced. All zero where nothing received spans.
#[expect(clippy::struct_field_names, reason = "the names of `summary.json`")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) requests_traced: u64,
    pub(crate) requests_joined: u64,
    /// Reason → how many requests.
    pub(crate) not_joined: BTreeMap<String, u64>,
}

/// Everything that a summary is made of.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) facts: &'a RunFacts,
    pub(crate) binaries: &'a [BinaryRun<'a>],
    pub(crate) joined: Joined,
    pub(crate) attribution: Vec<Attribution>,
    /// As judged so far; doubts that the figures themselves raise are added.
    pub(crate) health: Health,
    /// What went wrong beyond the figures: an interruption, a service that ended, …
    pub(crate) outcomes: Vec<Outcome>,
}

/// The summary of a run. Thresholds are judged here; verdict and exit code follow from `outcomes`, from thresholds,
/// from `health.valid`, and from whether any iteration succeeded.
pub(crate) fn summarise(inputs: Inputs<'_>) -> Summary {
    let Inputs { facts, binaries, joined, mut attribution, mut health, mut outcomes } = inputs;
    let (mut scenarios, mut steps, mut checks) = (vec![], vec![], vec![]);
    let (mut metrics, mut thresholds) = (vec![], vec![]);
    let mut trace = Trace {
        requests_traced: joined.requests_traced,
        requests_joined: joined.requests_joined,
        requests_joined_share: ratio(joined.requests_joined, joined.requests_traced),
        not_joined: joined.not_joined,
        ..Trace::default()
    };
    for binary in binaries {
        let nothing = ScenarioStats::default();
        for (name, info) in names(binary) {
            let stats = binary.stats.load.get(name).unwrap_or(&nothing);
            trace.iterations_seen += stats.iterations_seen;
            trace.iterations_traced += stats.iterations_traced;
            scenarios.push(scenario(binary, name, info, stats));
            let reference = binary.stats.reference.get(name);
            // As the scenario goes, not as the alphabet does.
            let mut by_rank: Vec<_> = stats.steps.iter().collect();
            by_rank.sort_by_key(|(_, stats)| stats.rank);
            for (key, step_stats) in by_rank {
                let unloaded = reference.and_then(|reference| reference.steps.get(key));
                steps.push(step(binary.package, name, key, step_stats, unloaded));
            }
            checks.extend(stats.checks.iter().map(|(check, counts)| Check {
                package: binary.package.to_owned(),
                scenario: name.to_owned(),
                name: check.clone(),
                passes: counts.passes,
                fails: counts.fails,
            }));
            let seconds = binary.stats.measured(name).as_secs_f64();
            metrics.extend(metric_figures::of(binary.package, name, stats, seconds));
            thresholds.extend(info.into_iter().flat_map(|info| judge(binary, info, stats, seconds)));
        }
    }
    let place = |of: &Attribution| {
        steps.iter().position(|step: &Step| {
            (&step.package, &step.scenario, &step.step, step.kind)
                == (&of.package, &of.scenario, &of.step, of.kind)
        })
    };
    attribution.sort_by_key(place);
    let judgement = health::judge(binaries);
    health.valid &= !judgement.is_invalid;
    health.warnings.extend(judgement.warnings);
    health.lateness_p99_ms = judgement.lateness_p99.map(|late| millis(late.as_nanos() as f64));
    health.warnings.extend(scenarios.iter().filter_map(time_unaccounted_for));
    health.warnings.extend(scenarios.iter().filter_map(panicked));
    health.warnings.extend(metrics.iter().filter_map(metric_figures::doubts));
    if scenarios.iter().any(|scenario| succeeded(scenario) > 0) {
        health.warnings.extend(scenarios.iter().filter_map(without_success));
    }
    // A load that a threshold ended need not have come to the end of any iteration.
    let aborted = binaries.iter().any(|binary| !binary.stats.aborted.is_empty());
    if no_success(&scenarios).is_some() && !aborted {
        outcomes.push(Outcome::CouldNotRun);
    }
    if thresholds.iter().any(|threshold| !threshold.passed) {
        outcomes.push(Outcome::ThresholdFailed);
    }
    if !health.valid {
        outcomes.push(Outcome::Invalid);
    }
    let (exit_code, verdict) = decide(outcomes);
    let load_time: Duration = binaries.iter().map(|binary| binary.stats.load_time).sum();
    Summary {
        schema: SCHEMA.to_owned(),
        run: Run {
            id: facts.id.clone(),
            started_at: rfc3339(facts.started_unix_ns),
            duration_s: load_time.as_secs_f64(),
            commit: facts.commit.clone(),
            dirty: facts.dirty,
            base_url: facts.base_url.clone(),
            seed: Some(facts.seed.unwrap_or_else(|| facts.id.seed())),
            trace,
        },
        scenarios,
        totals: totals(binaries, load_time),
        steps,
        checks,
        metrics,
        thresholds,
        attribution,
        health,
        verdict,
        exit_code,
    }
}

/// The scenarios that were to run, in the order of their listing, then what was measured under any other name.
fn names<'a>(binary: &BinaryRun<'a>) -> Vec<(&'a str, Option<&'a ScenarioInfo>)> {
    let known: BTreeSet<&str> = binary.scenarios.iter().map(|info| info.name.as_str()).collect();
    let listed = binary.scenarios.iter().map(|info| (info.name.as_str(), Some(info)));
    let others = binary.stats.load.keys().map(String::as_str).filter(|name| !known.contains(name));
    listed.chain(others.map(|name| (name, None))).collect()
}

fn scenario(
    binary: &BinaryRun<'_>,
    name: &str,
    info: Option<&ScenarioInfo>,
    stats: &ScenarioStats,
) -> Scenario {
    let unknown = || "unknown".to_owned();
    let is_open = info.is_some_and(|info| info.load.open().is_some());
    let iteration_ns = stats.iteration.sum_nanos() + u128::from(stats.interrupted_ns);
    Scenario {
        name: name.to_owned(),
        package: binary.package.to_owned(),
        executor: info.map_or_else(unknown, |info| info.load.executor().to_owned()),
        load: info.map_or_else(unknown, ScenarioInfo::describe),
        duration_s: binary.stats.measured(name).as_secs_f64(),
        vus_max: stats.vus_max,
        iterations: stats.iterations,
        failed_iterations: stats.failed_iterations,
        panics: stats.panics,
        dropped_iterations: stats.dropped_iterations,
        dropped: stats.dropped.clone(),
        interrupted_iterations: stats.interrupted_iterations,
        errors: error_counts(&stats.errors),
        flows: info.map_or_else(Vec::new, |info| flows(&info.flows, stats)),
        iteration_ms: LatencyMs::of(&stats.iteration),
        response_ms: is_open.then(|| LatencyMs::of(&stats.response)),
        lag_ms: is_open.then(|| LatencyMs::of(&stats.lag)),
        warm_up: warm_up(binary, name, info),
        vu_seconds: stats.vu_ns as f64 / 1e9,
        iteration_seconds: iteration_ns as f64 / 1e9,
    }
}

fn flows(infos: &[FlowInfo], stats: &ScenarioStats) -> Vec<Flow> {
    let flow = |info: &FlowInfo| {
        let stats = stats.flows.get(&info.name).copied().unwrap_or_default();
        Flow {
            name: info.name.clone(),
            weight: info.weight,
            iterations: stats.iterations,
            failed_iterations: stats.failed_iterations,
            interrupted_iterations: stats.interrupted_iterations,
        }
    };
    infos.iter().map(flow).collect()
}

/// What the scenario asked to be left out of the figures.
fn warm_up(binary: &BinaryRun<'_>, name: &str, info: Option<&ScenarioInfo>) -> Option<WarmUp> {
    let duration = info?.timing.warm_up;
    let nothing = ScenarioStats::default();
    let stats = binary.stats.warm_up.get(name).unwrap_or(&nothing);
    (!duration.is_zero()).then(|| WarmUp {
        duration_s: duration.as_secs_f64(),
        iterations: stats.iterations + stats.interrupted_iterations,
        dropped_iterations: stats.dropped_iterations,
        requests: stats.requests().count,
    })
}

/// The commonest first; what was too various to keep word for word stands last.
fn error_counts(tally: &ErrorTally) -> Vec<ErrorCount> {
    let mut errors: Vec<_> = tally
        .messages
        .iter()
        .map(|(message, count)| ErrorCount { message: message.clone(), count: *count })
        .collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    if tally.other > 0 {
        errors.push(ErrorCount { message: OTHER_MESSAGES.to_owned(), count: tally.other });
    }
    errors
}

fn step(
    package: &str,
    scenario: &str,
    key: &StepKey,
    stats: &StepStats,
    unloaded: Option<&StepStats>,
) -> Step {
    let p50 = unloaded.and_then(|stats| stats.latency.percentile(50.0));
    let is_request = key.kind == StepKind::Request;
    Step {
        package: package.to_owned(),
        scenario: scenario.to_owned(),
        step: key.name.clone(),
        kind: key.kind,
        count: stats.count,
        errors: stats.errors,
        rate_limited: stats.rate_limited,
        interrupted: stats.interrupted,
        status: stats.status.clone(),
        error_types: stats.error_types.clone(),
        latency_ms: LatencyMs::of(&stats.latency),
        duration_ms: is_request.then(|| LatencyMs::of(&stats.duration)),
        phases_ms: HttpPhase::ALL
            .into_iter()
            .filter(|_| is_request)
            .filter_map(|phase| Some((phase.name().to_owned(), PhaseMs::of(&stats.phase(phase))?)))
            .collect(),
        retries: stats.retries,
        generator_errors: stats.generator_errors,
        unloaded_ms: p50.map(|p50| Unloaded { p50: millis(p50.nanos as f64) }),
    }
}

/// A threshold that cannot be read any more (it was, when the listing was made) fails and says why. One that ended the run
/// has failed whatever came of the load after it.
fn judge<'a>(
    binary: &BinaryRun<'a>,
    info: &'a ScenarioInfo,
    stats: &'a ScenarioStats,
    seconds: f64,
) -> impl Iterator<Item = Threshold> {
    let (package, aborted) = (binary.package, &binary.stats.aborted);
    info.thresholds.iter().zip(threshold::Threshold::of(info)).map(move |(text, threshold)| {
        let aborted =
            aborted.iter().find(|aborted| aborted.scenario == info.name && aborted.threshold == *text);
        let (observed, passed, words) = match threshold.map(|threshold| threshold.judge(stats, seconds)) {
            Ok(judged) => (judged.observed, judged.passed, judged.text),
            Err(error) => (None, false, error),
        };
        let words = match aborted {
            Some(aborted) if passed => format!("{words} at the end, {} then", aborted.text),
            _ => words,
        };
        Threshold {
            package: package.to_owned(),
            scenario: info.name.clone(),
            metric: text.metric.clone(),
            expression: text.expression.clone(),
            observed,
            passed: passed && aborted.is_none(),
            text: words,
            aborted_at_s: aborted.map(|aborted| aborted.at_ms as f64 / 1e3),
        }
    })
}

fn totals(binaries: &[BinaryRun<'_>], load_time: Duration) -> Totals {
    let mut totals = Totals::default();
    for (_, stats) in binaries.iter().flat_map(|binary| &binary.stats.load) {
        let requests = stats.requests();
        totals.requests += requests.count;
        totals.errors += requests.errors;
        totals.rate_limited += requests.rate_limited;
        totals.interrupted += requests.interrupted;
        totals.retries += requests.retries;
        totals.generator_errors += requests.generator_errors;
    }
    if !load_time.is_zero() {
        totals.requests_per_s = totals.requests as f64 / load_time.as_secs_f64();
    }
    totals
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Users' time in the loop that no iteration explains. Below a tenth of a second it says nothing.
fn time_unaccounted_for(scenario: &Scenario) -> Option<Warning> {
    let (users, iterations) = (scenario.vu_seconds, scenario.iteration_seconds);
    let apart = (users - iterations).abs();
    let succeeded = succeeded(scenario) > 0;
    (succeeded && apart > 0.02 * users.max(iterations) && apart > 0.1).then(|| {
        let message = format!(
            "the users of {} spent {users:.1} s in the loop but its iterations took {iterations:.1} s in all; they \
             should agree within 2%. The generator itself may be short of CPU.",
            scenario.name
        );
        Warning::new("vu-seconds", message)
    })
}

fn panicked(scenario: &Scenario) -> Option<Warning> {
    (scenario.panics > 0).then(|| {
        let (panics, iterations) = (scenario.panics, scenario.iterations);
        let message = format!(
            "{panics} of {iterations} iterations of {} panicked: that is a fault of the load test. A threshold on \
             iteration_failed, such as rate==0, makes it fail the run.",
            scenario.name
        );
        Warning::new("panics", message)
    })
}

fn without_success(scenario: &Scenario) -> Option<Warning> {
    (succeeded(scenario) == 0).then(|| {
        let why = no_success(std::slice::from_ref(scenario)).unwrap_or_default();
        Warning::new("scenario-without-success", format!("{}: {why}", scenario.name))
    })
}

/// UTC, to the millisecond.
fn rfc3339(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::event::Aborted;
    use super::super::flow::FlowStats;
    use super::super::plan::ThresholdText;
    use super::super::sample;
    use super::super::verdict::Verdict;
    use std::sync::LazyLock;

    use super::*;

    static NOTHING_SEEN: LazyLock<Signs> = LazyLock::new(Signs::default);
    #[test]
    fn the_flows_of_a_mix_are_summarised_in_the_order_of_its_code_also_those_that_never_ran() {
        let mut infos = sample::infos();
        let info = |name: &str, weight| FlowInfo { name: name.to_owned(), weight };
        infos[0].flows = vec![info("buy", 2), info("browse", 7), info("never", 1)];
        let mut stats = sample::stats();
        let flow = |iterations, failed_iterations| FlowStats {
            iterations,
            failed_iterations,
            interrupted_iterations: 1,
        };
        for (name, flow) in [("browse", flow(30, 2)), ("buy", flow(9, 0)), ("browse", flow(5, 1))] {
            let later = ScenarioStats { flows: [(name.to_owned(), flow)].into(), ..ScenarioStats::default() };
            stats.load.get_mut(sample::SCENARIO).unwrap().merge(&later);
        }
        let binary =
            BinaryRun { package: sample::PACKAGE, scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN };
        let summary = of(&[binary], Health::default(), Vec::new());
        let flows = summary.scenarios[0].flows.iter().map(|flow| {
            (
                flow.name.as_str(),
                flow.weight,
                flow.iterations,
                flow.failed_iterations,
                flow.interrupted_iterations,
            )
        });
        assert_eq!(
            flows.collect::<Vec<_>>(),
            [("buy", 2, 9, 0, 1), ("browse", 7, 35, 3, 2), ("never", 1, 0, 0, 0)]
        );
    }

    fn of(binaries: &[BinaryRun<'_>], health: Health, outcomes: Vec<Outcome>) -> Summary {
        summarise(Inputs {
            facts: &sample::facts(),
            binaries,
            joined: Joined::default(),
            attribution: Vec::new(),
            health,
            outcomes,
        })
    }

    fn valid() -> Health {
        Health { valid: true, ..Health::default() }
    }

    fn run_of(edit: impl FnOnce(&mut ScenarioStats)) -> RunStats {
        let mut stats = sample::stats();
        edit(stats.load.get_mut(sample::SCENARIO).unwrap());
        stats
    }

    #[test]
    fn the_figures_add_up() {
        let summary = sample::summary();
        let count = |of: fn(&Step) -> u64| summary.steps.iter().map(of).sum::<u64>();
        assert_eq!(summary.totals.requests, count(|step| step.count));
        assert_eq!(summary.totals.requests, count(|step| step.status.values().sum()));
        let rate = summary.totals.requests as f64 / summary.run.duration_s;
        assert!((summary.totals.requests_per_s - rate).abs() < 1e-9 && (rate - 15.0).abs() < 1e-9);
        let scenario = &summary.scenarios[0];
        assert_eq!((scenario.iterations, scenario.vus_max), (600, 20));
        assert!((scenario.vu_seconds / scenario.iteration_seconds - 1.0).abs() < 0.02);
        for step in &summary.steps {
            let latency = &step.latency_ms;
            let ascending = [latency.min, latency.p50, latency.p90, latency.p95, latency.p99, latency.max];
            assert!(ascending.is_sorted(), "{ascending:?}");
            assert!(step.unloaded_ms.as_ref().unwrap().p50 < latency.min.unwrap());
            let means: f64 = step.phases_ms.values().map(|phase| phase.mean).sum();
            assert!((means - latency.mean.unwrap()).abs() < 0.01, "{means} of {:?}", latency.mean);
            assert_eq!(step.phases_ms.len(), 7);
            let before = means - step.duration_ms.as_ref().unwrap().mean.unwrap();
            assert!((before - step.phases_ms["connecting"].mean).abs() < 0.01, "{before}");
        }
        for attribution in &summary.attribution {
            let sum: f64 = attribution.operations.iter().map(|operation| operation.critical_ms).sum();
            assert!((sum - attribution.mean_ms).abs() < 0.1);
        }
        assert_eq!(summary.run.started_at, "2026-11-30T13:45:01.000Z");
        assert_eq!(
            (summary.exit_code, summary.verdict),
            (99, Verdict::Failed),
            "one threshold does not hold"
        );
    }

    #[test]
    fn binaries_one_after_the_other_have_their_own_figures_and_one_total() {
        let (infos, stats) = (sample::infos(), sample::stats());
        let binary = |package| BinaryRun { package, scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN };
        let summary = of(&[binary("a"), binary("b")], valid(), Vec::new());
        let packages: Vec<_> = summary.scenarios.iter().map(|scenario| scenario.package.as_str()).collect();
        assert_eq!(packages, ["a", "b"]);
        assert_eq!((summary.steps.len(), summary.thresholds.len(), summary.checks.len()), (6, 6, 2));
        assert_eq!(summary.totals.requests, 3600);
        assert!((summary.run.duration_s - 240.0).abs() < 1e-9);
        assert!((summary.totals.requests_per_s - 15.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_in_which_no_iteration_succeeded_could_not_run_and_says_the_commonest_error() {
        let infos = sample::infos();
        let refused = run_of(|stats| {
            stats.failed_iterations = stats.iterations;
            stats.errors.add("odd one", 1);
            stats.errors.add("connection refused", 599);
        });
        let cut_off = run_of(|stats| (stats.iterations, stats.interrupted_iterations) = (0, 20));
        let nothing = RunStats::default();
        for (stats, words) in [
            (&refused, "600 failed, most often (599 times) with: connection refused"),
            (&cut_off, "20 were cut off"),
            (&nothing, "none ended"),
        ] {
            let binary = BinaryRun { package: "p", scenarios: &infos, stats, signs: &NOTHING_SEEN };
            let summary = of(&[binary], valid(), Vec::new());
            assert_eq!(summary.exit_code, 102);
            let why = no_success(&summary.scenarios).unwrap();
            assert!(why.contains(words), "{why}");
        }
        assert_eq!(no_success(&sample::summary().scenarios), None);
    }

    #[test]
    fn a_load_that_was_over_before_its_warm_up_says_so() {
        let (mut infos, mut stats) = (sample::infos(), RunStats::default());
        infos[0].timing.warm_up = std::time::Duration::from_millis(2500);
        let warmed = ScenarioStats { iterations: 40, ..ScenarioStats::default() };
        stats.warm_up.insert(sample::SCENARIO.to_owned(), warmed);
        let binary = BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN };
        let summary = of(&[binary], valid(), Vec::new());
        assert_eq!(summary.exit_code, 102);
        let why = no_success(&summary.scenarios).unwrap();
        assert!(why.contains("all iterations (40) began in the warm-up of 2.5 s"), "{why}");
    }

    #[test]
    fn the_exit_code_follows_the_documented_precedence() {
        let infos = sample::infos();
        let stats = sample::stats();
        let binaries = [BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN }];
        let mut no_thresholds = infos.clone();
        no_thresholds[0].thresholds.clear();
        let passing =
            [BinaryRun { package: "p", scenarios: &no_thresholds, stats: &stats, signs: &NOTHING_SEEN }];
        let invalid = Health::default();
        assert_eq!(of(&passing, valid(), Vec::new()).exit_code, 0);
        assert_eq!(of(&passing, invalid.clone(), Vec::new()).verdict, Verdict::Invalid);
        assert_eq!(of(&binaries, invalid.clone(), Vec::new()).exit_code, 99);
        let interrupted = of(&binaries, invalid, vec![Outcome::Terminated]);
        assert_eq!((interrupted.exit_code, interrupted.verdict), (143, Verdict::Interrupted));
    }

    #[test]
    fn doubts_that_the_figures_raise_become_warnings() {
        let codes = |edit: fn(&mut ScenarioStats)| {
            let mut infos = sample::infos();
            let mut stats = run_of(edit);
            // Beside a scenario that is well, so that the run itself has successes.
            infos.push(ScenarioInfo { name: "well".into(), thresholds: Vec::new(), ..infos[0].clone() });
            stats.load.insert("well".into(), sample::stats().load[sample::SCENARIO].clone());
            let summary = of(
                &[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN }],
                valid(),
                Vec::new(),
            );
            summary.health.warnings.iter().map(|warning| warning.code.clone()).collect::<Vec<_>>()
        };
        assert_eq!(codes(|_| ()), [""; 0]);
        assert_eq!(codes(|stats| stats.vu_ns += stats.vu_ns / 40), ["vu-seconds"]);
        assert_eq!(codes(|stats| stats.failed_iterations = stats.iterations), ["scenario-without-success"]);
    }

    #[test]
    fn what_the_listing_does_not_know_is_kept_and_a_threshold_that_cannot_be_read_fails() {
        let mut infos = sample::infos();
        infos[0].thresholds = vec![ThresholdText {
            metric: "nonsense".into(),
            expression: "p(95)<1s".into(),
            ..ThresholdText::default()
        }];
        let mut stats = sample::stats();
        stats.load.insert("unlisted".into(), ScenarioStats::default());
        let summary = of(
            &[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN }],
            valid(),
            Vec::new(),
        );
        assert_eq!(summary.scenarios[1].executor, "unknown");
        assert!(!summary.thresholds[0].passed && summary.thresholds[0].text.contains("unknown metric"));
    }

    #[test]
    fn a_threshold_that_ended_the_run_has_failed_whatever_came_after() {
        let mut infos = sample::infos();
        infos[0].thresholds.truncate(1);
        (infos[0].thresholds[0].expression, infos[0].thresholds[0].abort_on_fail) = ("p(95)<1h".into(), true);
        let mut stats = run_of(|stats| stats.failed_iterations = stats.iterations);
        stats.aborted.push(Aborted {
            scenario: sample::SCENARIO.into(),
            threshold: infos[0].thresholds[0].clone(),
            at_ms: 4000,
            text: "p(95)=2h".into(),
        });
        let summary = of(
            &[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &NOTHING_SEEN }],
            valid(),
            vec![],
        );
        let threshold = &summary.thresholds[0];
        assert!(!threshold.passed && threshold.observed.is_some());
        assert_eq!(threshold.aborted_at_s, Some(4.0));
        assert!(
            threshold.finding().ends_with(" at the end, p(95)=2h then, ended the run after 4 s"),
            "{threshold:?}"
        );
        assert_eq!(
            (summary.exit_code, summary.verdict),
            (99, Verdict::Failed),
            "not 102, although nothing succeeded"
        );
    }
}
