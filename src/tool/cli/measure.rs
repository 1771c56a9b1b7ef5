//! One scenario binary under load: events in, traces reduced as they complete, progress shown.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::Invocation;
use super::args::MessageFormat;
use super::collect::{Collector, SpanArchive};
use super::find::Binary;
use super::peak::{Peak, elsewhere};
use super::problem::Problem;
use super::run::{DRAIN, DRAIN_WHEN_STOPPED, GENERATOR};
use super::session::{Identity, QUIET_ELSEWHERE, Session};
use super::stop::Stopper;
use crate::model::event::{Event, Finished, Warning};
use crate::model::health::Signs;
use crate::model::plan::{RunPlan, ScenarioInfo, TracePolicy};
use crate::model::stats::{Phase, RunStats};
use crate::model::summarise::Joined;
use crate::model::summary::Attribution;
use crate::sys::clock;
use crate::tool::drive::{self, DriveError};
use crate::tool::report::json::{self, IntervalMessage, Message};
use crate::tool::report::progress::Progress;
use crate::tool::results::{Binary as BinaryRecord, Recorder};
use crate::tool::usage::Sampler;

/// Nothing new for so long: every span that is under way has arrived, where nobody sends seldom.
const QUIET: Duration = Duration::from_secs(1);

/// How often the traces that are complete are taken in: they take room until then.
const SWEEP: Duration = Duration::from_millis(200);

/// What one binary measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) package: String,
    pub(super) scenarios: Vec<ScenarioInfo>,
    pub(super) stats: RunStats,
    pub(super) warnings: Vec<Warning>,
    pub(super) attribution: Vec<Attribution>,
    pub(super) joined: Joined,
    pub(super) spans_dropped: u64,
    /// Exports of the scenario process's metrics.
    pub(super) metrics_failed: u64,
    /// What the scenario process saw of itself.
    pub(super) signs: Signs,
}

impl Measured {
    fn nothing(binary: &Binary) -> Self {
        Self {
            package: binary.target.package.clone(),
            scenarios: binary.scenarios.clone(),
            stats: RunStats::default(),
            warnings: Vec::new(),
            attribution: Vec::new(),
            joined: Joined::default(),
            spans_dropped: 0,
            metrics_failed: 0,
            signs: Signs::default(),
        }
    }

    /// Says where the time went, and keeps some whole traces.
    fn explain(&mut self, collector: Collector, archive: &mut SpanArchive) {
        self.warnings.extend(collector.doubt());
        self.joined = collector.joined();
        self.attribution = collector.attributions(&self.package, &self.stats);
        if let Err(error) = collector.archive(archive) {
            let message = format!("some traces could not be kept: {error}");
            self.warnings.push(Warning::new("archive", message));
        }
    }
}

pub(super) struct Inputs<'r> {
    pub(super) call: &'r Invocation,
    pub(super) message_format: MessageFormat,
    pub(super) stopper: &'r Stopper,
    pub(super) session: &'r Session,
    pub(super) binary: &'r Binary,
    pub(super) identity: &'r Identity,
    pub(super) resource: &'r BTreeMap<String, String>,
    pub(super) recorder: &'r mut Recorder,
    pub(super) sampler: &'r Sampler,
    pub(super) archive: &'r mut SpanArchive,
}

/// Runs the binary to its end; what was measured is there also when a problem ended it.
pub(super) async fn measure(inputs: Inputs<'_>) -> (Measured, Option<Problem>) {
    let Inputs {
        call,
        message_format,
        stopper,
        session,
        binary,
        identity,
        resource,
        recorder,
        sampler,
        archive,
    } = inputs;
    let mut measured = Measured::nothing(binary);
    let plan = match plan(session, binary, identity, resource) {
        Ok(plan) => plan,
        Err(problem) => return (measured, Some(problem)),
    };
    let record = BinaryRecord {
        package: binary.target.package.clone(),
        target: binary.target.name.clone(),
        scenarios: binary.scenarios.clone(),
    };
    if let Err(error) = recorder.binary(&record) {
        return (measured, Some(error.into()));
    }
    if let Some(host) = plan.base_url.as_deref().and_then(elsewhere) {
        let peak = Peak::of(&binary.scenarios).describe();
        call.console.status("Target", &format!("{host} (not this machine): {peak}"));
    }
    let traced = plan.trace != TracePolicy::Off;
    let mut collector = Collector::new();
    let listener = RefCell::new(Listener {
        call,
        message_format,
        binary,
        identity,
        recorder,
        sampler,
        progress: Progress::new(&binary.scenarios),
        live: call.console.live(),
        measured: &mut measured,
        journal_failed: false,
    });
    let (stop, stopping) = watch::channel(false);
    let driving = drive::run(
        &binary.launch,
        plan,
        stopping,
        |pid| {
            session.services.spare(pid);
            sampler.watch(GENERATOR, pid, false);
        },
        |event| listener.borrow_mut().take(&event),
    );
    let (ended, mut service_problem) = accompany(driving, session, stopper, &stop, &mut collector).await;
    sampler.load_ends();
    listener.borrow().live.finish();
    drop(listener);
    let stopped = stopper.wish().is_some() || service_problem.is_some();
    let at_most = match (traced, stopped || ended.is_err()) {
        (false, _) => Duration::ZERO,
        (true, false) => DRAIN,
        (true, true) => DRAIN_WHEN_STOPPED,
    };
    tokio::select! {
        biased;
        error = session.services.exited(), if service_problem.is_none() => {
            service_problem = Some(Problem::from(error));
        }
        _ = stopper.wished(), if !stopped => {}
        () = drain(session, &mut collector, at_most) => {}
    }
    let stopped = stopper.wish().is_some() || service_problem.is_some();
    if traced {
        session.receiver.finish(|trace| collector.take(trace));
        measured.explain(collector, archive);
    }
    let problem = match ended {
        Ok(finished) => {
            measured.spans_dropped = finished.spans_dropped;
            measured.metrics_failed = finished.metrics_failed;
            measured.signs = finished.signs;
            None
        }
        // When a service has ended or somebody wished the end, that is the cause, and this the consequence.
        Err(_) if stopped => None,
        Err(error) => Some(Problem::from(error)),
    };
    (measured, service_problem.or(problem))
}

/// Drives to the end; meanwhile takes in the traces that are complete, and asks for the end when a service has ended
/// or somebody wishes it.
async fn accompany(
    driving: impl Future<Output = Result<Finished, DriveError>>,
    session: &Session,
    stopper: &Stopper,
    stop: &watch::Sender<bool>,
    collector: &mut Collector,
) -> (Result<Finished, DriveError>, Option<Problem>) {
    let mut driving = pin!(driving);
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut problem = None;
    loop {
        tokio::select! {
            ended = &mut driving => return (ended, problem),
            _ = sweep.tick() => session.receiver.sweep(clock::now(), |trace| collector.take(trace)),
            error = session.services.exited(), if problem.is_none() => {
                problem = Some(Problem::from(error));
                stop.send_replace(true);
            }
            _ = stopper.wished(), if !*stop.borrow() => {
                stop.send_replace(true);
            }
        }
    }
}

fn plan(
    session: &Session,
    binary: &Binary,
    identity: &Identity,
    resource: &BTreeMap<String, String>,
) -> Result<RunPlan, Problem> {
    let config = &binary.config;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let shares_host = session.services.pids().next().is_some();
    Ok(RunPlan {
        run: identity.run.clone(),
        trace_prefix: identity.trace_prefix,
        scenarios: binary.scenarios.iter().map(|info| info.name.clone()).collect(),
        base_url: session.base_url.clone(),
        http: session.http.clone(),
        env: config.scenario_env()?,
        secrets: config.secrets(),
        overrides: config.overrides(),
        reference: config.reference_plan(),
        trace: config.trace.value,
        otlp_endpoint: Some(session.receiver.endpoint()),
        resource: resource.clone(),
        seed: config.seed.as_ref().map(|seed| seed.value),
        // The services need cores, too.
        workers: Some(if shares_host { cores.div_ceil(2) } else { cores }),
    })
}

/// Waits until spans stop arriving.
async fn drain(session: &Session, collector: &mut Collector, at_most: Duration) {
    let until = Instant::now() + at_most;
    let mut seen = session.receiver.progress().spans;
    let mut changed = Instant::now();
    while Instant::now() < until
        && changed.elapsed() < quiet(session.elsewhere, session.receiver.progress().of_services)
    {
        sleep(Duration::from_millis(50)).await;
        session.receiver.sweep(clock::now(), |trace| collector.take(trace));
        let now = session.receiver.progress().spans;
        if now != seen {
            (seen, changed) = (now, Instant::now());
        }
    }
}

/// How long nothing may come for all to have come. Where no service has sent any span, none is expected to.
fn quiet(elsewhere: bool, of_services: bool) -> Duration {
    if elsewhere && of_services { QUIET_ELSEWHERE } else { QUIET }
}

/// Takes the events of the scenario process.
struct Listener<'r> {
    call: &'r Invocation,
    message_format: MessageFormat,
    binary: &'r Binary,
    identity: &'r Identity,
    recorder: &'r mut Recorder,
    sampler: &'r Sampler,
    progress: Progress,
    live: crate::tool::report::progress::Live,
    measured: &'r mut Measured,
    journal_failed: bool,
}

impl Listener<'_> {
    fn take(&mut self, event: &Event) {
        if let Err(error) = self.recorder.event(event)
            && !self.journal_failed
        {
            self.journal_failed = true;
            self.warn(Warning::new(
                "journal",
                format!("this run could not be recovered if it were killed: {error}"),
            ));
        }
        let package = self.binary.target.package.as_str();
        match event {
            Event::PhaseStarted { phase, scenarios, .. } => {
                self.tell(&Message::PhaseStarted { package, phase: *phase, scenarios });
                self.announce(*phase, scenarios);
                if *phase == Phase::Load {
                    self.sampler.load_begins().into_iter().for_each(|warning| self.warn(warning));
                }
            }
            Event::Interval(interval) => {
                self.tell(&Message::Interval(IntervalMessage::of(package, interval)));
                self.measured.stats.add(interval);
                self.progress.update(interval);
                if interval.phase == Phase::Load
                    && let Some(line) = self.live.show(&self.progress)
                {
                    self.call.console.progress_line(&line);
                }
            }
            Event::Aborted(aborted) => {
                let text = format!("{} ends the run: {}", aborted.threshold, aborted.text);
                self.live.suspend(|| self.call.console.status("Aborting", &text));
                self.measured.stats.aborted.push(aborted.clone());
            }
            Event::Warning(warning) => self.warn(warning.clone()),
            Event::Listing(_) | Event::Failed(_) | Event::Finished(_) => {}
        }
    }

    fn announce(&self, phase: Phase, scenarios: &[String]) {
        let infos = self.binary.scenarios.iter().filter(|info| scenarios.contains(&info.name));
        let console = self.call.console;
        match phase {
            Phase::Reference => {
                for info in infos {
                    let plan = self.binary.config.reference_plan().unwrap_or(info.reference);
                    let iterations = if plan.iterations == 1 { "iteration" } else { "iterations" };
                    console.status(
                        "Reference",
                        &format!("{} {iterations} of {} alone", plan.iterations, info.name),
                    );
                }
            }
            // It is the beginning of the load, and announced with it.
            Phase::WarmUp => {}
            Phase::Load => {
                for info in infos {
                    let text = format!("{} · {} · run {}", info.name, info.describe(), self.identity.run);
                    console.status("Running", &text);
                }
            }
        }
    }

    fn warn(&mut self, warning: Warning) {
        self.tell(&Message::Warning(&warning));
        self.live.suspend(|| self.call.console.warning(&warning));
        self.measured.warnings.push(warning);
    }

    fn tell(&self, message: &Message<'_>) {
        if self.message_format == MessageFormat::Json {
            self.call.console.out(&json::line(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_from_elsewhere_that_have_sent_spans_are_waited_for_longer() {
        for (elsewhere, of_services, seconds) in
            [(true, true, 6), (true, false, 1), (false, true, 1), (false, false, 1)]
        {
            assert_eq!(quiet(elsewhere, of_services).as_secs(), seconds, "{elsewhere} {of_services}");
        }
    }
}
