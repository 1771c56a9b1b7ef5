//! Run without the tool: configuration from `LOADTEST_*`, the plain table on stdout, the exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::run;
use crate::model::event::{Event, Failure, FailureKind};
use crate::model::health::Signs;
use crate::model::http::{HttpPlan, HttpSettings};
use crate::model::id::{RunId, TracePrefix};
use crate::model::load::{LoadOverride, Stage};
use crate::model::plan::{ReferencePlan, RunPlan, ScenarioInfo};
use crate::model::secret::Secrets;
use crate::model::stats::RunStats;
use crate::model::success::no_success;
use crate::model::summarise::{BinaryRun, Inputs, Joined, RunFacts, summarise};
use crate::model::summary::{Health, Summary};
use crate::model::table::{self, Column};
use crate::model::verdict::Outcome;
use crate::model::{arrivals, duration};
use crate::runtime::engine::StopFlag;
use crate::runtime::scenario::Scenario;
use crate::sys::signal::{EndWish, EndWishes};
use crate::sys::{clock, env};

/// Runs every scenario of the binary.
pub(super) fn run(scenarios: Vec<Scenario>) -> ExitCode {
    match whole_run(scenarios) {
        Ok((summary, problems)) => {
            if summary.steps.is_empty() && !problems.is_empty() {
                problems.iter().for_each(|problem| complain(problem));
            } else {
                say(&summary, &problems);
            }
            ExitCode::from(summary.exit_code)
        }
        Err(message) => {
            complain(&message);
            ExitCode::from(Outcome::Usage.code())
        }
    }
}

fn whole_run(scenarios: Vec<Scenario>) -> Result<(Summary, Vec<String>), String> {
    run::check_names(&scenarios)?;
    let over = load_from_environment()?;
    let infos = scenarios.iter().map(|scenario| effective(scenario, &over)).collect::<Result<Vec<_>, _>>()?;
    let started_unix_ns = clock::unix_nanos();
    let plan = RunPlan {
        run: RunId::new(started_unix_ns, fastrand::u16(..)),
        trace_prefix: TracePrefix::new(fastrand::u32(..)),
        scenarios: infos.iter().map(|info| info.name.clone()).collect(),
        base_url: env::var("LOADTEST_BASE_URL"),
        env: BTreeMap::new(),
        secrets: Secrets::default(),
        http: http_from_environment()?,
        overrides: BTreeMap::from([("*".to_owned(), over)]),
        reference: reference_from_environment()?,
        trace: variable::<crate::model::plan::TracePolicy>("LOADTEST_TRACE", str::parse)?.unwrap_or_default(),
        otlp_endpoint: env::var("LOADTEST_OTLP_ENDPOINT").or_else(|| env::var("OTEL_EXPORTER_OTLP_ENDPOINT")),
        resource: BTreeMap::new(),
        seed: variable("LOADTEST_SEED", number)?,
        workers: None,
    };
    let facts = RunFacts {
        id: plan.run.clone(),
        started_unix_ns,
        commit: None,
        dirty: None,
        base_url: plan.base_url.clone(),
        seed: plan.seed,
    };
    let stop = StopFlag::default();
    let wishes = stop_on_end_wish(&stop)?;
    let (mut stats, mut signs) = (RunStats::default(), Signs::default());
    let (mut outcomes, mut warnings, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    run::execute(scenarios, plan, &stop, &mut |event| match event {
        Event::Interval(interval) => stats.add(&interval),
        Event::Aborted(aborted) => stats.aborted.push(aborted),
        Event::Warning(warning) => warnings.push(warning),
        Event::Failed(Failure { kind, message }) => {
            problems.push(message);
            outcomes.push(match kind {
                FailureKind::Configuration => Outcome::Usage,
                FailureKind::Run => Outcome::CouldNotRun,
            });
        }
        Event::Finished(finished) => signs = finished.signs,
        Event::Listing(_) | Event::PhaseStarted { .. } => {}
    });
    outcomes.extend(wishes.try_iter());
    let binary = BinaryRun { package: "", scenarios: &infos, stats: &stats, signs: &signs };
    let summary = summarise(Inputs {
        facts: &facts,
        binaries: &[binary],
        joined: Joined::default(),
        attribution: Vec::new(),
        health: Health { valid: true, warnings, ..Health::default() },
        outcomes,
    });
    if problems.is_empty() {
        problems.extend(no_success(&summary.scenarios));
    }
    Ok((summary, problems))
}

fn effective(scenario: &Scenario, over: &LoadOverride) -> Result<ScenarioInfo, String> {
    let mut info = scenario.info()?;
    info.load = over.apply(&info.load).map_err(|why| format!("scenario `{}`: {why}", scenario.name))?;
    Ok(info)
}

fn load_from_environment() -> Result<LoadOverride, String> {
    Ok(LoadOverride {
        vus: variable("LOADTEST_VUS", number)?,
        duration: variable("LOADTEST_DURATION", duration::parse)?,
        iterations: variable("LOADTEST_ITERATIONS", number)?,
        stages: variable("LOADTEST_STAGES", |text| {
            text.split(',').map(|stage| Stage::from_str(stage.trim())).collect()
        })?
        .unwrap_or_default(),
        rate: variable("LOADTEST_RATE", str::parse)?,
        max_vus: variable("LOADTEST_MAX_VUS", number)?,
    })
}

fn http_from_environment() -> Result<HttpPlan, String> {
    let above = HttpSettings::from_variables(env::var).map_err(|(name, why)| format!("{name}: {why}"))?;
    Ok(HttpPlan { above, ..HttpPlan::default() })
}

fn reference_from_environment() -> Result<Option<ReferencePlan>, String> {
    let iterations = variable("LOADTEST_REFERENCE", |text| if text == "off" { Ok(0) } else { number(text) })?;
    Ok(iterations.map(|iterations| ReferencePlan { iterations, ..ReferencePlan::default() }))
}

fn variable<T>(name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    env::var(name).map(|text| read(&text).map_err(|why| format!("{name}: {why}"))).transpose()
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// Ctrl-C or SIGTERM once: results are kept. Twice: the process ends.
fn stop_on_end_wish(stop: &StopFlag) -> Result<Receiver<Outcome>, String> {
    let (tell, wishes) = channel();
    let stop = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a runtime: {error}"))?;
    let listen = async move {
        let Ok(mut wishes) = EndWishes::listen() else { return };
        for last in [false, true] {
            let outcome = match wishes.next().await {
                EndWish::Interrupt => Outcome::Interrupted,
                EndWish::Terminate => Outcome::Terminated,
            };
            if last {
                crate::sys::process::exit(outcome.code());
            }
            // The run that hears of it is over when nobody listens.
            let _ = tell.send(outcome);
            stop.set();
        }
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || runtime.block_on(listen))
        .map(|_| wishes)
        .map_err(|error| format!("cannot start a thread: {error}"))
}

#[expect(clippy::print_stdout, reason = "the report of a binary that runs alone")]
fn say(summary: &Summary, problems: &[String]) {
    println!("{}\n{}", table::table(summary, &Column::STANDARD), table::totals(&summary.totals));
    print!("{}", arrivals::section(summary));
    for threshold in &summary.thresholds {
        let mark = if threshold.passed { "✓" } else { "✗" };
        println!("{mark} {}  {}  {}", threshold.metric, threshold.expression, threshold.finding());
    }
    for check in &summary.checks {
        let mark = if check.fails == 0 { "✓" } else { "✗" };
        println!("{mark} {}  {} of {} passed", check.name, check.passes, check.passes + check.fails);
    }
    for metric in &summary.metrics {
        let [kind, words] = metric.figures.cells();
        println!("{}  {kind}  {words}", metric.name);
    }
    for warning in &summary.health.warnings {
        println!("{}: {}", warning.code, warning.message);
    }
    problems.iter().for_each(|problem| complain(problem));
}

#[expect(clippy::print_stderr, reason = "the errors of a binary that runs alone")]
fn complain(message: &str) {
    eprintln!("error: {message}");
}
