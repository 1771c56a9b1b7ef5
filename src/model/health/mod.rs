//! Whether the generator was fit to measure. Pure, so that the tool and a binary that runs alone judge alike.

mod signs;

pub(crate) use signs::{Busy, SATURATED, Signs, Throttled, Throttling, WorkerSigns};

use std::time::Duration;

use super::event::Warning;
use super::http::{GENERATOR_ADDRESS, GENERATOR_DESCRIPTORS, GENERATOR_MEMORY, GENERATOR_TRUST};
use super::latency::Latency;
use super::load::LoadModel;
use super::stats::{DropCause, RunStats, ScenarioStats};
use super::summarise::BinaryRun;

/// From where on a sign is told, and from where on the measurement is invalid.
#[derive(Debug, Clone, Copy)]
struct Limit {
    warn: f64,
    invalid: f64,
}

/// CPU of one worker thread in its busiest second, of one core: from where on it is told.
const WORKER_CPU: f64 = 0.80;
/// Seconds in which a worker thread was saturated, of the measured time: a single one of a long load spoils few figures.
const SATURATED_TIME: f64 = 0.05;
/// Worker threads that did not hand over what they had measured.
const BLOCKED: Limit = Limit { warn: 0.0, invalid: 0.0 };
/// Time in which the control group of the scenario process was throttled, of the time in which that was counted.
const THROTTLED: Limit = Limit { warn: 0.0, invalid: 0.05 };
/// Requests that this machine could not send.
const FAILED_CONNECTIONS: Limit = Limit { warn: 0.0, invalid: 0.0 };
/// A step of the wall clock against the monotonic one, in seconds.
const CLOCK_STEP: Limit = Limit { warn: 0.1, invalid: 0.1 };
/// For how long the process did not run, or a thread of it that was due, in seconds. On a busy host tens of milliseconds.
const NOT_RUN: Limit = Limit { warn: 0.5, invalid: 0.5 };
/// 99th percentile of the lateness of starts, of the median latency. Open models.
const LATENESS: Limit = Limit { warn: 0.10, invalid: 0.25 };
/// No generator starts anything more punctually than this.
const LATENESS_NOISE: Duration = Duration::from_millis(1);
/// Lateness makes response times longer and never shorter: so little, or that of so few starts that the percentile is but the
/// worst of them, is told and does not invalidate.
const LATENESS_BORNE: Duration = Duration::from_millis(5);
const FEW_STARTS: u64 = 100;
/// Arrivals that were not started because the generator was late, of all arrivals.
const DROPPED_LATE: Limit = Limit { warn: 0.0, invalid: 0.01 };
/// 99th percentile of a worker's loop lag, of the median latency. It is an advice: what invalidates is the CPU.
const LOOP_LAG: Limit = Limit { warn: 0.10, invalid: f64::INFINITY };
/// A runtime's timer is itself some milliseconds late, so that less says nothing of the loop.
const LOOP_LAG_NOISE: Duration = Duration::from_millis(10);

/// Classes of errors that are the generator's own, and what to do about each.
const OWN_ERRORS: [(&str, &str, &str, &str); 4] = [
    (
        GENERATOR_DESCRIPTORS,
        "generator-descriptors",
        "the generator had no file descriptors left",
        "raise the limit (`ulimit -n`), or use fewer virtual users",
    ),
    (
        GENERATOR_ADDRESS,
        "generator-address",
        "the generator had no local address or port left",
        "use more source addresses (--source-ip), let users keep their connections, or widen net.ipv4.ip_local_port_range",
    ),
    (
        GENERATOR_MEMORY,
        "generator-memory",
        "the generator's system had no memory left for sockets",
        "raise its limits (net.ipv4.tcp_mem, the container's memory), or use fewer virtual users",
    ),
    (
        GENERATOR_TRUST,
        "generator-trust",
        "the generator could read no certificate to trust",
        "install those of the system (the package ca-certificates), or name others (--ca-file)",
    ),
];

/// What is to be said of the generator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Judgement {
    /// The figures are the generator's as much as the system's.
    pub(crate) is_invalid: bool,
    pub(crate) warnings: Vec<Warning>,
    /// Of all starts of open models.
    pub(crate) lateness_p99: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Fine,
    Doubtful,
    Invalid,
}

impl Limit {
    fn level(self, value: f64) -> Level {
        if value > self.invalid {
            Level::Invalid
        } else if value > self.warn {
            Level::Doubtful
        } else {
            Level::Fine
        }
    }
}

impl Judgement {
    /// Takes a sign in; `text` makes its message of what follows for the figures.
    fn add(&mut self, level: Level, code: &str, text: impl FnOnce(&str) -> String) {
        let consequence = match level {
            Level::Fine => return,
            Level::Doubtful => "latencies may be partly the generator's own",
            Level::Invalid => {
                "the figures are the generator's as much as the system's: this measurement is invalid"
            }
        };
        self.is_invalid |= level == Level::Invalid;
        self.warnings.push(Warning::new(code, text(consequence)));
    }
}

/// Judges the generator by the whole run.
pub(crate) fn judge(binaries: &[BinaryRun<'_>]) -> Judgement {
    let (mut judgement, mut lag) = (Judgement::default(), Latency::default());
    for BinaryRun { stats, signs, scenarios, .. } in binaries {
        blocked(&mut judgement, signs.blocked_workers);
        worker_cpu(&mut judgement, &signs.workers);
        if let Some(throttled) = signs.throttling {
            throttling(&mut judgement, throttled);
        }
        for (class, code, what, advice) in OWN_ERRORS {
            own_errors(&mut judgement, errors_of(stats, class), code, what, advice);
        }
        clock_step(&mut judgement, signs.clock_step_ns);
        stopped(&mut judgement, signs.stopped);
        starved(&mut judgement, signs.starved);
        loop_lag(&mut judgement, &signs.workers, median_latency(stats.load.values()));
        for (name, scenario) in &stats.load {
            lag.merge(&scenario.lag);
            start_lateness(&mut judgement, name, scenario);
            dropped_late(&mut judgement, name, scenario);
            let load = scenarios.iter().find(|info| info.name == *name).map(|info| &info.load);
            let most = load.map_or(scenario.vus_max, LoadModel::vus_max);
            let alone = stats.reference.get(name).and_then(|reference| reference.iteration.mean_nanos());
            let pool = Pool {
                at_first: load.map_or(most, LoadModel::vus_at_first),
                users: most,
                alone_ns: alone,
                measured: stats.measured(name),
            };
            judgement.warnings.extend(dropped_for_want_of_users(name, scenario, &pool));
        }
    }
    judgement.lateness_p99 = percentile(&lag, 99.0);
    judgement
}

fn start_lateness(judgement: &mut Judgement, name: &str, scenario: &ScenarioStats) {
    let late = percentile(&scenario.lag, 99.0).filter(|late| *late > LATENESS_NOISE);
    let (Some(late), Some(median)) = (late, median_latency([scenario].into_iter())) else { return };
    let is_borne = late <= LATENESS_BORNE || scenario.lag.count() < FEW_STARTS;
    let most = if is_borne { Level::Doubtful } else { Level::Invalid };
    judgement.add(LATENESS.level(ratio(late, median)).min(most), "start-lateness", |consequence| {
        format!(
            "iterations of {name} began up to {} late (99th percentile; the median latency is {}), so that {consequence}; \
             use a lower rate, more worker threads, or a machine for the generator alone.",
            millis(late),
            millis(median)
        )
    });
}

fn dropped_late(judgement: &mut Judgement, name: &str, scenario: &ScenarioStats) {
    let late = scenario.dropped.get(&DropCause::Generator).copied().unwrap_or(0);
    let arrivals = arrivals(scenario);
    let share = late as f64 / arrivals.max(1) as f64;
    judgement.add(DROPPED_LATE.level(share), "dropped-late", |consequence| {
        format!(
            "{late} of {arrivals} arrivals of {name} ({}) did not begin because the generator did not run when they were due \
             (stopped, or without a CPU), so that {consequence}; use a lower rate, or a machine for the generator alone.",
            percent(share)
        )
    });
}

/// What the users of an open model had to do.
struct Pool {
    /// Set up beforehand.
    at_first: u32,
    /// At most.
    users: u32,
    /// Mean duration of an iteration in the reference phase.
    alone_ns: Option<f64>,
    measured: Duration,
}

/// Arrivals that no user was free for say nothing against the generator, but something of the system, or of the number of
/// users. By Little's law rate × duration users are busy on average.
fn dropped_for_want_of_users(name: &str, scenario: &ScenarioStats, pool: &Pool) -> Option<Warning> {
    let dropped = scenario.dropped.get(&DropCause::Pool).copied().filter(|dropped| *dropped > 0)?;
    let arrivals = arrivals(scenario);
    let rate = arrivals as f64 / pool.measured.as_secs_f64().max(f64::MIN_POSITIVE);
    let needed = |nanos: f64| (rate * nanos / 1e9, Duration::from_nanos(nanos as u64));
    let begin =
        format!("{dropped} of {arrivals} arrivals of {name} found none of its {} users free", pool.users);
    let alone = pool.alone_ns.map(needed);
    let loaded = scenario.iteration.mean_range().map(|(mean, _)| needed(mean));
    let most = f64::from(pool.users);
    let were_added = |needed: f64| needed > f64::from(pool.at_first) && needed <= most;
    let reason = match (alone, loaded) {
        (Some((needed, took)), _) | (None, Some((needed, took))) if were_added(needed) => format!(
            "{} were set up beforehand, {rate:.1}/s of iterations that take {} keep {needed:.0} busy, and the others were \
             added too late; give .pre_allocated_vus(…) as many as are needed",
            pool.at_first,
            millis(took)
        ),
        (Some((needed, took)), _) if needed > most => format!(
            "there are too few users: {rate:.1}/s of iterations that take {} even alone keep {needed:.0} busy; raise \
             max_vus, or lower the rate",
            millis(took)
        ),
        (Some((before, alone)), Some((now, took))) => format!(
            "the system was too slow for the rate: alone an iteration took {}, and {rate:.1}/s would keep {before:.0} \
             busy; under load it took {}, which keeps {now:.0} busy",
            millis(alone),
            millis(took)
        ),
        (None, Some((needed, took))) if needed > most => format!(
            "{rate:.1}/s of iterations that take {} keep {needed:.0} busy: either the system is too slow for the rate, or \
             there are too few users; raise max_vus to see which",
            millis(took)
        ),
        (None, Some((needed, took))) => format!(
            "{rate:.1}/s of iterations that take {} keep only {needed:.0} busy on average, so the system was slower, or the \
             rate higher, for a part of the time",
            millis(took)
        ),
        (_, None) => "no iteration ended in time: the system did not answer".to_owned(),
    };
    Some(Warning::new("dropped-no-user", format!("{begin}: {reason}.")))
}

/// What fell due, whatever became of it.
fn arrivals(scenario: &ScenarioStats) -> u64 {
    scenario.iterations + scenario.interrupted_iterations + scenario.dropped_iterations
}

fn blocked(judgement: &mut Judgement, workers: usize) {
    judgement.add(BLOCKED.level(workers as f64), "worker-blocked", |consequence| {
        let (threads, they) = if workers == 1 {
            ("1 worker thread was".to_owned(), "it")
        } else {
            (format!("{workers} worker threads were"), "they")
        };
        format!(
            "{threads} still blocked in the scenario's code after all iterations were cut off: what {they} measured last is \
             in no figure, and {consequence}; await what takes time (`vu.sleep` for a pause), and move code that blocks or \
             computes for long to `tokio::task::spawn_blocking`.",
        )
    });
}

fn worker_cpu(judgement: &mut Judgement, workers: &[WorkerSigns]) {
    let level = |worker: &WorkerSigns, busiest: Busy| match busiest.cpu {
        _ if worker.saturated > SATURATED_TIME => Level::Invalid,
        cpu if cpu > WORKER_CPU => Level::Doubtful,
        _ => Level::Fine,
    };
    let all = workers.iter().filter_map(|worker| {
        worker.busiest.map(|busiest| (level(worker, busiest), busiest, worker.saturated))
    });
    let worst =
        all.max_by(|(one, busy, _), (other, busier, _)| one.cmp(other).then(busy.cpu.total_cmp(&busier.cpu)));
    let Some((level, busiest, saturated)) = worst else { return };
    judgement.add(level, "generator-cpu", |consequence| {
        format!(
            "a worker thread of the generator used {} of a core for {:.1} s, from {:.0} s of the measured time on (its \
             busiest second), and more than {} of it for {} of the time, so that {consequence}; use fewer virtual users, \
             more worker threads, or a machine for the generator alone.",
            percent(busiest.cpu),
            busiest.length.as_secs_f64(),
            busiest.from.as_secs_f64(),
            percent(SATURATED),
            percent(saturated)
        )
    });
}

fn throttling(judgement: &mut Judgement, Throttling { periods, time, within }: Throttling) {
    let share = ratio(time, within);
    let any = if periods > 0 { Level::Doubtful } else { Level::Fine };
    let level = THROTTLED.level(share).max(any);
    judgement.add(level, "cgroup-throttled", |consequence| {
        format!(
            "the generator's control group had used up its CPU quota {} and was kept waiting for {:.2} s ({} of the \
             load), so that {consequence}; raise its quota (`cpu.max`, or the container's CPU limit).",
            times(periods),
            time.as_secs_f64(),
            percent(share)
        )
    });
}

fn own_errors(judgement: &mut Judgement, errors: u64, code: &str, what: &str, advice: &str) {
    judgement.add(FAILED_CONNECTIONS.level(errors as f64), code, |consequence| {
        let requests = if errors == 1 { "request failed" } else { "requests failed" };
        format!("{errors} {requests} because {what}, so that {consequence}; {advice}.")
    });
}

fn clock_step(judgement: &mut Judgement, nanos: i64) {
    let seconds = nanos as f64 / 1e9;
    judgement.add(CLOCK_STEP.level(seconds.abs()), "clock-stepped", |consequence| {
        let direction = if seconds < 0.0 { "back" } else { "on" };
        format!(
            "the clock of this host was set {direction} by {:.1} s during the load, or the host was suspended: times of \
             spans do not fit each other, and {consequence}.",
            seconds.abs()
        )
    });
}

fn stopped(judgement: &mut Judgement, longest: Duration) {
    judgement.add(NOT_RUN.level(longest.as_secs_f64()), "generator-stopped", |consequence| {
        format!(
            "the scenario process did not run for {:.1} s during the load (a stop signal, a pause of its container or \
             virtual machine, or no CPU that it could be seen to wait for): {consequence}.",
            longest.as_secs_f64()
        )
    });
}

fn starved(judgement: &mut Judgement, longest: Duration) {
    judgement.add(NOT_RUN.level(longest.as_secs_f64()), "generator-starved", |consequence| {
        format!(
            "a thread of the scenario process waited {:.1} s for a CPU during the load, so that {consequence}; use a lower \
             load, or a machine for the generator alone.",
            longest.as_secs_f64()
        )
    });
}

fn loop_lag(judgement: &mut Judgement, workers: &[WorkerSigns], median: Option<Duration>) {
    let lag = workers.iter().filter_map(|worker| percentile(&worker.lag, 99.0)).max();
    let (Some(lag), Some(median)) = (lag.filter(|lag| *lag > LOOP_LAG_NOISE), median) else { return };
    let ratio = ratio(lag, median);
    judgement.add(LOOP_LAG.level(ratio), "generator-loop", |consequence| {
        format!(
            "a worker thread of the generator looked at what had arrived up to {} late (99th percentile; the median \
             latency is {}), so that {consequence}; use fewer virtual users, more worker threads, or a machine for the \
             generator alone.",
            millis(lag),
            millis(median)
        )
    });
}

fn errors_of(stats: &RunStats, class: &str) -> u64 {
    let steps = stats.load.values().flat_map(|scenario| scenario.steps.values());
    steps.filter_map(|step| step.error_types.get(class)).sum()
}

/// The median latency of all requests; of iterations, where there are none.
fn median_latency<'a>(scenarios: impl Iterator<Item = &'a ScenarioStats>) -> Option<Duration> {
    let mut all = ScenarioStats::default();
    for scenario in scenarios {
        all.merge(scenario);
    }
    percentile(&all.requests().latency, 50.0).or_else(|| percentile(&all.iteration, 50.0))
}

fn percentile(latency: &Latency, percent: f64) -> Option<Duration> {
    latency.percentile(percent).map(|quantile| Duration::from_nanos(quantile.nanos))
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn percent(share: f64) -> String {
    // Never rounded to nothing.
    if share < 0.1 { format!("{:.1}%", share * 100.0) } else { format!("{:.0}%", share * 100.0) }
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::http::is_generators_own;
    use crate::model::load::Open;
    use crate::model::sample;
    use crate::model::stats::{StepKey, StepKind, StepStats};

    /// What is said of the sample run, whose median latency is above 100 ms and which takes 120 s, with these signs.
    fn judged(signs: &Signs) -> Judgement {
        judged_with(signs, |_| ())
    }

    fn judged_with(signs: &Signs, edit: impl Fn(&mut StepStats)) -> Judgement {
        let (infos, mut stats) = (sample::infos(), sample::stats());
        stats.load.values_mut().flat_map(|scenario| scenario.steps.values_mut()).for_each(edit);
        judge(&[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs }])
    }

    fn codes(judgement: &Judgement) -> Vec<&str> {
        judgement.warnings.iter().map(|warning| warning.code.as_str()).collect()
    }

    /// Nothing, a warning, or a warning that says that the measurement is invalid.
    fn level(judgement: &Judgement, code: &str) -> Level {
        if judgement.warnings.is_empty() {
            assert!(!judgement.is_invalid);
            return Level::Fine;
        }
        assert_eq!(codes(judgement), [code]);
        assert_eq!(judgement.warnings[0].message.contains("measurement is invalid"), judgement.is_invalid);
        if judgement.is_invalid { Level::Invalid } else { Level::Doubtful }
    }

    fn lag(millis: &[u64]) -> Latency {
        let mut lag = Latency::default();
        millis.iter().for_each(|millis| lag.record(Duration::from_millis(*millis)));
        lag
    }

    use Level::{Doubtful, Fine, Invalid};

    #[test]
    fn a_process_that_saw_nothing_is_fit() {
        assert_eq!(judged(&Signs::default()), Judgement::default());
        assert_eq!(judge(&[]), Judgement::default());
    }

    #[test]
    fn the_worst_worker_thread_decides() {
        for (cpu, saturated, want) in [
            (0.8, 0.0, Fine),
            (0.81, 0.0, Doubtful),
            (0.95, 0.0, Doubtful),
            // One second of a minute, and of ten.
            (0.96, 1.0 / 60.0, Doubtful),
            (0.96, 0.1, Invalid),
        ] {
            let busy = |cpu| Busy { cpu, from: Duration::from_secs(12), length: Duration::from_millis(1040) };
            let worker = |cpu: Option<f64>, saturated| WorkerSigns {
                busiest: cpu.map(busy),
                saturated,
                ..WorkerSigns::default()
            };
            // One that was busier for a moment does not hide it.
            let other = if want == Invalid { Some(0.99) } else { Some(0.1) };
            let workers = vec![worker(other, 0.01), worker(Some(cpu), saturated), worker(None, 0.0)];
            let judgement = judged(&Signs { workers, ..Signs::default() });
            assert_eq!(level(&judgement, "generator-cpu"), want, "{cpu}");
            if let Some(warning) = judgement.warnings.first() {
                let words = format!(
                    "{:.0}% of a core for 1.0 s, from 12 s of the measured time on (its busiest second)",
                    cpu * 100.0
                );
                assert!(warning.message.contains(&words), "{warning:?}");
            }
        }
    }

    #[test]
    fn a_worker_thread_that_is_blocked_invalidates() {
        for (blocked_workers, words) in [(1, "1 worker thread was still"), (2, "2 worker threads were still")]
        {
            let judgement = judged(&Signs { blocked_workers, ..Signs::default() });
            assert_eq!(level(&judgement, "worker-blocked"), Invalid);
            let said = &judgement.warnings[0].message;
            assert!(said.starts_with(words) && said.contains("spawn_blocking"), "{said}");
        }
    }

    #[test]
    fn any_throttling_is_told_and_a_twentieth_of_the_time_is_too_much() {
        for (periods, millis, want) in
            [(0, 0, Fine), (1, 0, Doubtful), (1, 1, Doubtful), (70, 6000, Doubtful), (70, 6001, Invalid)]
        {
            // Of the time in which it was counted, however long the load was measured: 120 s.
            for of in [1, 10] {
                let time = Duration::from_millis(millis) / of;
                let throttling = Some(Throttling { periods, time, within: Duration::from_secs(120) / of });
                let judgement = judged(&Signs { throttling, ..Signs::default() });
                assert_eq!(level(&judgement, "cgroup-throttled"), want, "{periods} {millis} {of}");
            }
        }
        let (time, within) = (Duration::from_millis(120), Duration::from_secs(120));
        let throttling = Some(Throttling { periods: 1, time, within });
        let judgement = judged(&Signs { throttling, ..Signs::default() });
        let said = &judgement.warnings[0].message;
        assert!(said.contains("quota once and was kept waiting for 0.12 s (0.1% of the load)"), "{said}");
    }

    #[test]
    fn one_request_that_the_generator_could_not_send_is_too_many() {
        for class in ["generator_descriptors", "generator_address", "generator_memory", "generator_trust"] {
            assert!(is_generators_own(class));
            let code = class.replace('_', "-");
            let judgement = judged_with(&Signs::default(), |step| {
                step.error_types.insert(class.to_owned(), 1);
            });
            assert_eq!(level(&judgement, &code), Invalid);
            let said = &judgement.warnings[0].message;
            assert!(said.starts_with("3 requests failed because the generator"), "{said}");
        }
        let others = judged_with(&Signs::default(), |step| {
            step.error_types.insert("connect_refused".to_owned(), 7);
        });
        assert_eq!(others, Judgement::default());
    }

    #[test]
    fn a_clock_that_is_set_and_a_process_that_is_stopped_invalidate() {
        for (millis, want) in
            [(100, Fine), (101, Invalid), (-100, Fine), (-101, Invalid), (i64::MAX / MS, Invalid)]
        {
            let judgement = judged(&Signs { clock_step_ns: millis * MS, ..Signs::default() });
            assert_eq!(level(&judgement, "clock-stepped"), want, "{millis}");
        }
        let back = judged(&Signs { clock_step_ns: -2000 * MS, ..Signs::default() });
        assert!(back.warnings[0].message.contains("set back by 2.0 s"), "{back:?}");
        for (millis, want) in [(500, Fine), (501, Invalid)] {
            let judgement = judged(&Signs { stopped: Duration::from_millis(millis), ..Signs::default() });
            assert_eq!(level(&judgement, "generator-stopped"), want, "{millis}");
            let judgement = judged(&Signs { starved: Duration::from_millis(millis), ..Signs::default() });
            assert_eq!(level(&judgement, "generator-starved"), want, "{millis}");
        }
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn a_loop_that_is_late_by_a_tenth_of_the_median_latency_is_told() {
        let requests = sample::stats().load[sample::SCENARIO].requests();
        let median = requests.latency.percentile(50.0).unwrap().nanos / 1_000_000;
        assert!(median > 100, "beyond what is noise in any case: {median} ms");
        let worker = |lag| WorkerSigns { lag, ..WorkerSigns::default() };
        for (late, want) in [(median / 10 - 1, Fine), (median / 10 + 2, Doubtful), (median, Doubtful)] {
            let workers = vec![worker(lag(&[1, 2, 1])), worker(lag(&[1, late]))];
            let judgement = judged(&Signs { workers, ..Signs::default() });
            assert_eq!(level(&judgement, "generator-loop"), want, "{late} of {median}");
        }
        // One late look in two hundred is not the 99th percentile.
        let mut looks = vec![1; 199];
        looks.push(500);
        let judgement = judged(&Signs { workers: vec![worker(lag(&looks))], ..Signs::default() });
        assert_eq!(judgement, Judgement::default());
    }

    #[test]
    fn timers_that_are_late_by_milliseconds_say_nothing_where_responses_take_less() {
        let (infos, mut stats) = (sample::infos(), RunStats::default());
        let mut fast = sample::stats().load[sample::SCENARIO].clone();
        fast.steps.values_mut().for_each(|step| step.latency = lag(&[1]));
        stats.load.insert(sample::SCENARIO.to_owned(), fast);
        for (late, want) in [(10, Fine), (11, Doubtful)] {
            let signs = Signs {
                workers: vec![WorkerSigns { lag: lag(&[late]), ..WorkerSigns::default() }],
                ..Signs::default()
            };
            let judgement =
                judge(&[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &signs }]);
            assert_eq!(level(&judgement, "generator-loop"), want, "{late}");
        }
    }

    /// What is said of a scenario of an open model whose only step always took so long, over 10 s, with 50 users.
    fn open(latency_ms: u64, alone_ms: Option<u64>, edit: impl Fn(&mut ScenarioStats)) -> Judgement {
        open_with(50, latency_ms, alone_ms, edit)
    }

    /// With so many of the 50 users set up beforehand.
    fn open_with(
        at_first: u32,
        latency_ms: u64,
        alone_ms: Option<u64>,
        edit: impl Fn(&mut ScenarioStats),
    ) -> Judgement {
        let mut infos = sample::infos();
        infos[0].load = LoadModel::ConstantArrivalRate {
            rate: 100.0,
            per: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            open: Open { pre_allocated_vus: Some(at_first), max_vus: Some(50), ..Open::default() },
        };
        let of = |millis: u64| {
            let mut scenario = ScenarioStats { iteration: lag(&[millis]), ..ScenarioStats::default() };
            let step = StepStats { latency: lag(&[millis]), ..StepStats::default() };
            scenario.steps.insert(StepKey { kind: StepKind::Request, name: "GET /".into() }, step);
            scenario
        };
        let mut stats = RunStats { load_time: Duration::from_secs(10), ..RunStats::default() };
        let mut scenario = of(latency_ms);
        edit(&mut scenario);
        stats.load.insert(sample::SCENARIO.to_owned(), scenario);
        if let Some(alone) = alone_ms {
            stats.reference.insert(sample::SCENARIO.to_owned(), of(alone));
        }
        judge(&[BinaryRun { package: "p", scenarios: &infos, stats: &stats, signs: &Signs::default() }])
    }

    #[test]
    fn starts_that_are_late_by_a_quarter_of_the_median_latency_are_too_late() {
        for (late_us, want) in [(10_000, Fine), (10_100, Doubtful), (25_000, Doubtful), (25_100, Invalid)] {
            let judgement = open(100, None, |scenario| late(scenario, 100, late_us));
            assert_eq!(level(&judgement, "start-lateness"), want, "{late_us}");
            let told = judgement.lateness_p99.unwrap().as_micros() as u64;
            assert!(told.abs_diff(late_us) <= late_us / 1000, "{told}");
        }
        // Below what timers can do, nothing follows from it, however fast the system is.
        for (late_us, want) in [(1_000, Fine), (1_100, Doubtful), (5_000, Doubtful), (5_100, Invalid)] {
            let judgement = open(1, None, |scenario| late(scenario, 100, late_us));
            assert_eq!(level(&judgement, "start-lateness"), want, "{late_us}");
        }
        // The worst of a few is no percentile.
        let judgement = open(100, None, |scenario| late(scenario, 99, 90_000));
        assert_eq!(level(&judgement, "start-lateness"), Doubtful);
    }

    fn late(scenario: &mut ScenarioStats, starts: u32, micros: u64) {
        (0..starts).for_each(|_| scenario.lag.record(Duration::from_micros(micros)));
    }

    #[test]
    fn arrivals_that_the_generator_missed_are_told_and_more_than_one_in_a_hundred_is_too_many() {
        for (missed, want) in [(0, Fine), (1, Doubtful), (10, Doubtful), (11, Invalid)] {
            let judgement = open(100, None, |scenario| {
                scenario.iterations = 1000 - missed;
                scenario.drop_arrivals(DropCause::Generator, missed);
            });
            assert_eq!(level(&judgement, "dropped-late"), want, "{missed}");
        }
    }

    #[test]
    fn arrivals_without_a_user_say_whether_the_system_or_the_number_of_users_is_to_blame() {
        // 1000 arrivals in 10 s: 100/s, so that 50 users can do with 500 ms each.
        let said_with = |at_first, latency_ms, alone_ms| {
            let judgement = open_with(at_first, latency_ms, alone_ms, |scenario| {
                (scenario.iterations, scenario.interrupted_iterations) = (880, 20);
                scenario.drop_arrivals(DropCause::Pool, 100);
            });
            assert!(!judgement.is_invalid);
            assert_eq!(codes(&judgement), ["dropped-no-user"]);
            let message = judgement.warnings[0].message.clone();
            assert!(
                message.starts_with("100 of 1000 arrivals of auth found none of its 50 users free: "),
                "{message}"
            );
            message
        };
        let said = |latency_ms, alone_ms| said_with(50, latency_ms, alone_ms);
        let text = said(700, Some(600));
        assert!(
            text.contains("too few users: 100.0/s of iterations that take 600.0 ms even alone keep 60 busy"),
            "{text}"
        );
        let text = said(700, Some(20));
        assert!(
            text.contains(
                "too slow for the rate: alone an iteration took 20.0 ms, and 100.0/s would keep 2 busy"
            ),
            "{text}"
        );
        assert!(text.contains("under load it took 700.0 ms, which keeps 70 busy"), "{text}");
        assert!(
            said(700, None)
                .contains("either the system is too slow for the rate, or there are too few users")
        );
        assert!(said(300, None).contains("keep only 30 busy on average"));
        let added = "3 were set up beforehand, 100.0/s of iterations that take 200.0 ms keep 20 busy";
        for text in [said_with(3, 200, None), said_with(3, 700, Some(200))] {
            assert!(text.contains(added) && text.contains(".pre_allocated_vus"), "{text}");
        }
        assert!(said_with(3, 200, Some(20)).contains("the system was too slow for the rate"));
    }
}
