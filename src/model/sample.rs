//! A run to test reports with: 600 iterations of a sign-up flow, made of samples, so that its figures add up.

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::Warning;
use super::health::Signs;
use super::id::RunId;
use super::load::{LoadModel, Stage, Timing};
use super::phases::{HttpPhase, PhaseTimes};
use super::plan::{Declared, ReferencePlan, ScenarioInfo, ThresholdText};
use super::stats::{Interval, Phase, RunStats, ScenarioStats, StepKey, StepKind};
use super::summarise::{BinaryRun, Inputs, Joined, RunFacts, summarise};
use super::summary::{Attribution, Band, Health, Operation, Process, SlowTrace, Summary, millis};

pub(crate) const PACKAGE: &str = "blog-loadtests";
pub(crate) const SCENARIO: &str = "auth";
const STEPS: [&str; 3] = ["POST /auth/register", "POST /auth/login", "GET /users/{id}"];
const SECONDS: u64 = 120;
const ITERATIONS_A_SECOND: u64 = 5;
const STARTED_NS: u64 = 1_796_046_301_000_000_000;

pub(crate) fn facts() -> RunFacts {
    RunFacts {
        id: RunId::new(STARTED_NS, 0x7f3a),
        started_unix_ns: STARTED_NS,
        commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        dirty: Some(false),
        base_url: Some("http://127.0.0.1:8080".into()),
        seed: None,
    }
}

pub(crate) fn infos() -> Vec<ScenarioInfo> {
    let stage = |seconds, target| Stage::new(Duration::from_secs(seconds), target);
    let threshold = |metric: &str, expression: &str| ThresholdText {
        metric: metric.to_owned(),
        expression: expression.to_owned(),
        ..ThresholdText::default()
    };
    vec![ScenarioInfo {
        name: SCENARIO.to_owned(),
        load: LoadModel::RampingVus { stages: vec![stage(30, 20.0), stage(60, 20.0), stage(30, 0.0)] },
        timing: Timing::default(),
        reference: ReferencePlan::default(),
        thresholds: vec![
            threshold("http_req_duration", "p(95)<600ms"),
            threshold(r#"http_req_duration{step:"POST /auth/register"}"#, "p(95)<1800ms"),
            threshold("http_req_failed", "rate<0.01"),
        ],
        declared: Declared::default(),
    }]
}

/// The duration of each request of iteration `n`, under load or alone: a fixed sequence that looks like chance.
fn request_times(n: u64, phase: Phase) -> [Duration; 3] {
    let spread = |salt: u64| (n * 7919 + salt * 104_729) % 1009;
    let micros = |base: u64, slope: u64, at: u64| base + slope * at + slope * at * at / 2500;
    match phase {
        Phase::Load => {
            [micros(410_000, 720, spread(1)), micros(350_000, 590, spread(2)), micros(4_000, 62, spread(3))]
        }
        Phase::Reference | Phase::WarmUp => [144_000 + spread(1), 139_000 + spread(2), 1_900 + spread(3)],
    }
    .map(Duration::from_micros)
}

/// Of a request on a connection that is there, or is made for it.
fn phases(time: Duration, is_first: bool) -> PhaseTimes {
    let mut phases = PhaseTimes::default();
    let connecting = if is_first { Duration::from_micros(400) } else { Duration::ZERO };
    let (sending, receiving) = (Duration::from_micros(30), Duration::from_micros(60));
    phases.set(HttpPhase::Connecting, connecting);
    phases.set(HttpPhase::Sending, sending);
    phases.set(HttpPhase::Waiting, time.saturating_sub(connecting + sending + receiving));
    phases.set(HttpPhase::Receiving, receiving);
    phases
}

fn iterations(range: std::ops::Range<u64>, phase: Phase) -> ScenarioStats {
    let mut stats = ScenarioStats { vus: 20, vus_max: 20, ..ScenarioStats::default() };
    for n in range {
        let times = request_times(n, phase);
        for (name, time) in STEPS.iter().zip(times) {
            let key = StepKey { kind: StepKind::Request, name: (*name).to_owned() };
            let step = stats.steps.entry(key).or_default();
            step.count += 1;
            *step.status.entry(if *name == STEPS[0] { 201 } else { 200 }).or_default() += 1;
            step.respond(time, &phases(time, n == 0));
        }
        let iteration = times.iter().sum::<Duration>() + Duration::from_millis(1500);
        stats.iteration.record(iteration);
        stats.iterations += 1;
        stats.iterations_seen += 1;
        stats.iterations_traced += 1;
        stats.vu_ns += iteration.as_nanos() as u64 + 40_000;
        stats.checks.entry("registered".to_owned()).or_default().passes += 1;
    }
    stats
}

/// Five iterations alone, then two minutes of five iterations a second.
pub(crate) fn intervals() -> Vec<Interval> {
    let interval = |phase, start_ms, end_ms, range| Interval {
        phase,
        start_ms,
        end_ms,
        scenarios: BTreeMap::from([(SCENARIO.to_owned(), iterations(range, phase))]),
    };
    let reference = interval(Phase::Reference, 0, 900, 0..5);
    let load = (0..SECONDS).map(|second| {
        let first = second * ITERATIONS_A_SECOND;
        interval(Phase::Load, second * 1000, (second + 1) * 1000, first..first + ITERATIONS_A_SECOND)
    });
    std::iter::once(reference).chain(load).collect()
}

pub(crate) fn stats() -> RunStats {
    let mut stats = RunStats::default();
    for interval in &intervals() {
        stats.add(interval);
    }
    stats
}

/// What each operation has of a band's mean: bcrypt waits for CPU, everything else waits a little.
const PARTS: [(&str, &str, &str, f64, Option<f64>); 8] = [
    ("auth", "bcrypt.hash", "internal", 0.9233, Some(140.1)),
    ("auth", "POST /auth/register", "server", 0.0432, Some(1.9)),
    ("user", "user.v1.Users/Create", "server", 0.0172, Some(2.2)),
    ("-", "(client → server)", "pseudo", 0.0098, Some(0.3)),
    ("gateway", "POST /auth/register", "server", 0.0051, Some(0.6)),
    ("user", "INSERT users", "client", 0.0007, Some(0.5)),
    ("user", "SELECT users", "client", 0.0004, Some(0.2)),
    ("-", "(uninstrumented)", "pseudo", 0.0003, Some(0.2)),
];

/// The attribution of registering: around p95 and over all.
fn attribution() -> Vec<Attribution> {
    let n = SECONDS * ITERATIONS_A_SECOND;
    let mut times: Vec<f64> = (0..n).map(|n| request_times(n, Phase::Load)[0].as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let of = |band, times: &[f64]| {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let operations = PARTS.map(|(service, operation, kind, share, unloaded_ms)| Operation {
            service: service.to_owned(),
            operation: operation.to_owned(),
            kind: kind.to_owned(),
            critical_ms: millis(share * mean * 1e6),
            share,
            share_ci95: [millis(share * 0.98e6), millis(share.min(0.98) * 1.02e6)],
            calls: 1.0,
            unloaded_ms,
        });
        Attribution {
            package: PACKAGE.to_owned(),
            scenario: SCENARIO.to_owned(),
            step: STEPS[0].to_owned(),
            kind: StepKind::Request,
            band,
            requests: n,
            requests_in_band: times.len() as u64,
            band_ms: [times[0], times[times.len() - 1]],
            mean_ms: millis(mean * 1e6),
            operations: operations.to_vec(),
            slowest: Vec::new(),
        }
    };
    let mut around_p95 = of(Band::P95, &times[555..585]);
    around_p95.slowest = vec![SlowTrace {
        trace_id: "10ad7e574b34da6aa3ce929d0e0e4736".to_owned(),
        duration_ms: millis(times[times.len() - 1] * 1e6),
    }];
    vec![around_p95, of(Band::All, &times)]
}

fn health() -> Health {
    let process = |name: &str, pid, cpu_share, ratio| Process {
        name: name.to_owned(),
        pid,
        cpu_share,
        runqueue_wait_ratio: Some(ratio),
        rss_bytes_max: Some(20 << 20),
        processes: 1,
        cpu_share_max: Some(millis(cpu_share * 1.04e6)),
        open_files_max: Some(u64::from(pid) - 60),
    };
    let message = "auth used 91% of this host's CPU and waited 7× as long for it; the generator used 3%. Services and \
                   generator share this machine: compare runs with each other, not these milliseconds with production.";
    Health {
        valid: true,
        warnings: vec![Warning::new("cpu-shared", message)],
        generator_cpu_share: Some(0.03),
        host_cpu_share: Some(0.97),
        steal_share: Some(0.0),
        cpu_pressure: Some(0.88),
        lateness_p99_ms: None,
        processes: vec![process("auth", 101, 0.91, 7.0), process("user", 102, 0.02, 0.4)],
    }
}

pub(crate) fn summary() -> Summary {
    let (infos, stats) = (infos(), stats());
    let requests = SECONDS * ITERATIONS_A_SECOND * STEPS.len() as u64;
    summarise(Inputs {
        facts: &facts(),
        binaries: &[BinaryRun {
            package: PACKAGE,
            scenarios: &infos,
            stats: &stats,
            signs: &Signs::default(),
        }],
        joined: Joined { requests_traced: requests, requests_joined: requests, ..Joined::default() },
        attribution: attribution(),
        health: health(),
        outcomes: Vec::new(),
    })
}
