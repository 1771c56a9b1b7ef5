//! `cargo loadtest run`: find, build, start, drive, explain, report.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Invocation;
use super::args::{MessageFormat, RunArgs};
use super::collect::SpanArchive;
use super::find::{self, Binary, Found};
use super::measure::{Measured, measure};
use super::problem::Problem;
use super::session::{self, Identity, Session};
use super::stop::Stopper;
use crate::model::event::Warning;
use crate::model::id::{RunId, TracePrefix};
use crate::model::summarise::{BinaryRun, Inputs, Joined, RunFacts, summarise};
use crate::model::summary::{Health, Process, Summary, Trace};
use crate::model::verdict::Outcome;
use crate::sys::{clock, family, git};
use crate::tool::analyse::health::{self, Observed};
use crate::tool::build::build_services;
use crate::tool::receive::ReceiverCounts;
use crate::tool::receive::archive::{ARCHIVE_LIMIT, Archive};
use crate::tool::receive::redact::{self, Redactor};
use crate::tool::report::json::{self, Message, ScenarioMessage};
use crate::tool::report::text;
use crate::tool::results::{Recorder, RunFolder};
use crate::tool::usage::{self, Sampler};

/// Names under which the generator's own processes are watched.
pub(super) const TOOL: &str = "cargo-loadtest";
pub(super) const GENERATOR: &str = "loadtest";

pub(super) async fn run(call: &Invocation, args: &RunArgs, stopper: &Stopper) -> Result<u8, Problem> {
    find::check_filters(&args.which.filters)?;
    let flags = args.settings.flags(Some(&args.load));
    let found = find::scenarios(call, &args.which.filters, &flags).await?;
    if let Some(problem) = found.unusable_and_wanted(&args.which.filters) {
        return Err(problem);
    }
    found.warn_of_unusable(call);
    if let Some(why) = found.nothing(&args.which.filters) {
        return find::nothing_to_run(call, args.which.no_tests, why);
    }
    if args.no_run {
        return build_only(call, args, &found).await;
    }
    Run::begin(call, args, stopper, found).await?.finish().await
}

/// `--no-run`: the scenarios are built already.
async fn build_only(call: &Invocation, args: &RunArgs, found: &Found) -> Result<u8, Problem> {
    for binary in &found.binaries {
        if !args.no_services {
            let scratch = tempfile::tempdir().map_err(|error| {
                Problem::new(Outcome::CouldNotRun, format!("cannot make a temporary folder: {error}"))
            })?;
            let services = &binary.config.services;
            build_services(&call.cargo, &call.flags, &found.workspace, services, scratch.path()).await?;
        }
        call.console.status("Built", &binary.launch.target);
    }
    Ok(0)
}

/// A run that has its folder.
struct Run<'c> {
    call: &'c Invocation,
    args: &'c RunArgs,
    stopper: &'c Stopper,
    found: Found,
    identity: Identity,
    facts: RunFacts,
    resource: BTreeMap<String, String>,
    folder: RunFolder,
    recorder: Recorder,
    sampler: Sampler,
    measured: Vec<Measured>,
    problems: Vec<Problem>,
    received: Vec<ReceiverCounts>,
    traces_omitted: u64,
}

impl<'c> Run<'c> {
    async fn begin(
        call: &'c Invocation,
        args: &'c RunArgs,
        stopper: &'c Stopper,
        found: Found,
    ) -> Result<Self, Problem> {
        for binary in &found.binaries {
            binary.config.check_secrets(!args.no_services)?;
            session::check(&found.workspace, &binary.config, !args.no_services)?;
        }
        let started_unix_ns = clock::unix_nanos();
        let id = RunId::new(started_unix_ns, fastrand::u16(..));
        let identity = Identity { run: id.clone(), trace_prefix: TracePrefix::new(fastrand::u32(..)) };
        let keep = found.binaries.iter().map(|binary| binary.config.keep_runs.value).max().unwrap_or(1);
        let (folder, not_removed) = RunFolder::create(&found.workspace.target_directory, &id, keep)?;
        not_removed
            .into_iter()
            .map(Problem::from)
            .for_each(|problem| call.console.error(&problem.message, None));
        let head = git::head(&found.workspace.root).await;
        let base_url = found.binaries.iter().find_map(|binary| binary.config.base_url.as_ref());
        let facts = RunFacts {
            id,
            started_unix_ns,
            commit: head.as_ref().map(|head| head.commit.clone()),
            dirty: head.as_ref().map(|head| head.dirty),
            base_url: base_url.map(|url| redact::text(&url.value).into_owned()),
            seed: found.binaries.iter().find_map(|binary| binary.config.seed.as_ref()).map(|seed| seed.value),
        };
        let mut resource = BTreeMap::new();
        if let Some(head) = head {
            resource.insert("vcs.ref.head.revision".to_owned(), head.commit);
            resource.extend(head.branch.map(|branch| ("vcs.ref.head.name".to_owned(), branch)));
        }
        let recorder = Recorder::create(&folder, &facts)?;
        let of_processes = usage::Resource { run: facts.id.clone(), more: resource.clone(), started_unix_ns };
        let sampler = Sampler::start(folder.usage()?, of_processes).map_err(|error| {
            Problem::new(Outcome::CouldNotRun, format!("cannot watch the use of this host: {error}"))
        })?;
        sampler.watch(TOOL, std::process::id(), false);
        Ok(Self {
            call,
            args,
            stopper,
            found,
            identity,
            facts,
            resource,
            folder,
            recorder,
            sampler,
            measured: Vec::new(),
            problems: Vec::new(),
            received: Vec::new(),
            traces_omitted: 0,
        })
    }

    async fn finish(mut self) -> Result<u8, Problem> {
        self.tell(&Message::RunStarted {
            run: &self.facts.id,
            scenarios: self
                .found
                .binaries
                .iter()
                .flat_map(|binary| {
                    binary.scenarios.iter().map(|info| ScenarioMessage::of(&binary.target.package, info))
                })
                .collect(),
        });
        let secrets = self.found.binaries.iter().map(|binary| binary.config.secrets()).collect();
        let mut archive = Archive::new(self.folder.spans()?, Redactor::new(secrets), ARCHIVE_LIMIT);
        let binaries = std::mem::take(&mut self.found.binaries);
        // The binaries of one package share its services, and so one session.
        for group in binaries.chunk_by(|a, b| a.target.package_id == b.target.package_id) {
            self.package(group, &mut archive).await;
            if self.stopper.wish().is_some()
                || self.is_aborted()
                || self.problems.iter().any(|problem| problem.outcome < Outcome::CouldNotRun)
            {
                break;
            }
        }
        if self.is_aborted() {
            self.warn_of_unrun(&binaries);
        }
        let kept = archive.finish().and_then(|(file, omitted)| file.finish().map(|()| omitted));
        self.traces_omitted = kept.map_err(|error| {
            Problem::new(Outcome::CouldNotRun, format!("cannot write the kept traces: {error}"))
        })?;
        self.stopper.heeded();
        self.report()
    }

    /// The scenario binaries of one package, one after the other.
    async fn package(&mut self, binaries: &[Binary], archive: &mut SpanArchive) {
        let Some(first) = binaries.first() else { return };
        let (call, with_services) = (self.call, !self.args.no_services);
        let starting = Session::start(
            call,
            &self.identity,
            &self.found.workspace,
            &first.config,
            &self.folder,
            with_services,
        );
        // When somebody wishes the end, what is being built or started is dropped and ended: by the command as a whole
        // while nothing is measured, and here once there are results of earlier packages to be reported.
        let started = tokio::select! {
            started = starting => started,
            _ = self.stopper.wished(), if self.stopper.is_heeded() => {
                family::end_all(&[], |_, _| false);
                return;
            }
        };
        let session = match started {
            Ok(session) => session,
            Err(problem) => return self.problems.push(problem),
        };
        for (name, pid) in session.services.pids() {
            self.sampler.watch(name, pid, true);
        }
        self.sampler.watch_others(first.config.watched());
        self.sampler.forward_to(Some(session.receiver.outlet()));
        self.stopper.heeded();
        for binary in binaries {
            let measured = measure(super::measure::Inputs {
                call,
                message_format: self.args.output.message_format,
                stopper: self.stopper,
                session: &session,
                binary,
                identity: &self.identity,
                resource: &self.resource,
                recorder: &mut self.recorder,
                sampler: &self.sampler,
                archive,
            });
            let (measured, problem) = measured.await;
            self.measured.push(measured);
            let ended = problem.is_some() || self.stopper.wish().is_some() || self.is_aborted();
            self.problems.extend(problem);
            if ended {
                break;
            }
        }
        self.sampler.forward_to(None);
        self.received.push(session.end(self.stopper).await);
    }

    /// Whether a threshold has ended the run: of the binaries that would come next, none is run.
    fn is_aborted(&self) -> bool {
        self.measured.iter().any(|measured| !measured.stats.aborted.is_empty())
    }

    /// Says which scenarios were not run since the binary that was measured last had ended the run.
    fn warn_of_unrun(&mut self, binaries: &[Binary]) {
        let Some(last) = self.measured.last_mut() else { return };
        let is_last =
            |binary: &Binary| binary.target.package == last.package && binary.scenarios == last.scenarios;
        let unrun = binaries.iter().rposition(is_last).map_or(&[][..], |at| &binaries[at + 1..]);
        let names: Vec<&str> =
            unrun.iter().flat_map(|binary| &binary.scenarios).map(|info| info.name.as_str()).collect();
        if !names.is_empty() {
            let message = format!("a threshold ended the run before these scenarios: {}", names.join(", "));
            last.warnings.push(Warning::new("not-run", message));
        }
    }

    fn tell(&self, message: &Message<'_>) {
        if self.args.output.message_format == MessageFormat::Json {
            self.call.console.out(&json::line(message));
        }
    }

    /// Writes and prints the results.
    fn report(self) -> Result<u8, Problem> {
        let console = self.call.console;
        let (summary, began) = (self.summary(), self.began());
        self.recorder.finish()?;
        self.folder.write("summary.json", &json::summary(&summary))?;
        self.folder.tidy()?;
        if self.args.output.message_format == MessageFormat::Json {
            console.out(&json::line(&Message::RunFinished { run: &summary.run.id, summary: &summary }));
        } else if began {
            let args = &self.args.columns;
            let options = text::Options {
                columns: args.columns(),
                phases: args.phases,
                style: console.style(),
                ..text::Options::default()
            };
            console.out(&format!("\n{}", text::report(&summary, &options)));
            console.out(&format!("\nrun saved: {}\n", shown(&self.folder, self.call)));
        }
        for problem in &self.problems {
            console.error(&problem.message, problem.hint);
        }
        // Without a load, what the load did not do is no news.
        let told = !self.problems.is_empty() && !began;
        for failure in text::failures(&summary).iter().filter(|_| !told) {
            console.error(failure, None);
        }
        Ok(summary.exit_code)
    }

    /// Whether any load was measured.
    fn began(&self) -> bool {
        self.measured.iter().any(|measured| !measured.stats.load.is_empty())
    }

    fn summary(&self) -> Summary {
        let binaries: Vec<BinaryRun<'_>> = self
            .measured
            .iter()
            .map(|measured| BinaryRun {
                package: &measured.package,
                scenarios: &measured.scenarios,
                stats: &measured.stats,
                signs: &measured.signs,
            })
            .collect();
        let mut joined = Joined::default();
        for one in &self.measured {
            joined.requests_traced += one.joined.requests_traced;
            joined.requests_joined += one.joined.requests_joined;
            for (reason, count) in &one.joined.not_joined {
                *joined.not_joined.entry(reason.clone()).or_default() += count;
            }
        }
        let wish = self.stopper.wish();
        summarise(Inputs {
            facts: &self.facts,
            binaries: &binaries,
            health: self.health(&joined),
            joined,
            attribution: self.measured.iter().flat_map(|measured| measured.attribution.clone()).collect(),
            outcomes: self.problems.iter().map(|problem| problem.outcome).chain(wish).collect(),
        })
    }

    fn health(&self, joined: &Joined) -> Health {
        let (usage, series) = (self.sampler.usage(), self.sampler.finish());
        let own = |process: &&Process| [TOOL, GENERATOR].contains(&process.name.as_str());
        let generator: f64 = usage.processes.iter().filter(own).map(|process| process.cpu_share).sum();
        let generator = (!usage.processes.is_empty()).then_some(generator);
        let services: Vec<Process> =
            usage.processes.iter().filter(|process| !own(process)).cloned().collect();
        let traced = joined.requests_traced;
        let trace = Trace {
            requests_traced: traced,
            requests_joined: joined.requests_joined,
            requests_joined_share: (traced > 0).then(|| joined.requests_joined as f64 / traced as f64),
            not_joined: joined.not_joined.clone(),
            ..Trace::default()
        };
        let doubts = health::doubts(&Observed {
            services: &services,
            generator_cpu_share: generator,
            host_cpu_share: usage.host_cpu_share,
            steal_share: usage.steal_share,
            cpu_pressure: usage.cpu_pressure,
            spans_dropped: self.measured.iter().map(|one| one.spans_dropped).sum(),
            spans_refused: self.received.iter().map(|counts| counts.spans_refused).sum(),
            not_forwarded: self
                .received
                .iter()
                .map(|counts| counts.forward_failed + counts.forward_dropped)
                .sum(),
            metrics_failed: self.measured.iter().map(|one| one.metrics_failed).sum(),
            spans_late: self.received.iter().map(|counts| counts.spans_late).sum(),
            trace: Some(&trace),
        });
        let omitted = (self.traces_omitted > 0).then(|| {
            let message = format!("{} traces found no room in spans.otlp.jsonl", self.traces_omitted);
            Warning::new("traces-omitted", message)
        });
        let series = series
            .err()
            .map(|error| Warning::new("usage-series", format!("usage.jsonl could not be written: {error}")));
        let told = self.measured.iter().flat_map(|measured| measured.warnings.iter().cloned());
        let told = told.chain(omitted).chain(series);
        Health {
            valid: true,
            warnings: told.chain(doubts).collect(),
            generator_cpu_share: generator,
            host_cpu_share: usage.host_cpu_share,
            steal_share: usage.steal_share,
            cpu_pressure: usage.cpu_pressure,
            lateness_p99_ms: None,
            processes: usage.processes,
        }
    }
}

/// The folder as one would type it from here.
fn shown(folder: &RunFolder, call: &Invocation) -> String {
    let path = folder.path();
    path.strip_prefix(call.cargo.folder()).unwrap_or(path).display().to_string()
}

/// How long spans may take to arrive once the load is over, and after an interruption.
pub(super) const DRAIN: Duration = Duration::from_secs(10);
pub(super) const DRAIN_WHEN_STOPPED: Duration = Duration::from_millis(400);
