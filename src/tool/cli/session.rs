//! What runs beside the load of one package's scenarios: the receiver and the services under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Invocation;
use super::problem::Problem;
use super::stop::Stopper;
use crate::model::http::HttpPlan;
use crate::model::id::{RunId, TracePrefix};
use crate::model::plan::TracePolicy;
use crate::model::verdict::Outcome;
use crate::sys::env;
use crate::tool::build::{build_services, check_services};
use crate::tool::config::{self, Config, OtlpProtocol, OtlpTarget, Probe, reveal};
use crate::tool::discover::Workspace;
use crate::tool::receive::forward::{Endpoint, ForwardOptions, ForwardProtocol};
use crate::tool::receive::redact;
use crate::tool::receive::signal::Signal;
use crate::tool::receive::store::QUIET;
use crate::tool::receive::{self, OTLP_PORT, Receiver, ReceiverCounts, STORE_BYTES};
use crate::tool::results::RunFolder;
use crate::tool::services::{self, Context, Placeholders, Program, Ready, ServiceSpec, Services, guard};

/// How long to wait for spans of services that send theirs every five seconds, as those do that nobody told otherwise.
pub(super) const QUIET_ELSEWHERE: Duration = Duration::from_secs(6);

/// How long what waits to be forwarded may take at the end, and after an interruption.
const FLUSH: Duration = Duration::from_secs(10);
const FLUSH_WHEN_STOPPED: Duration = Duration::from_secs(1);

/// The identity of a run.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) run: RunId,
    pub(super) trace_prefix: TracePrefix,
}

/// A receiver and services that are up.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) receiver: Receiver,
    pub(super) services: Services,
    /// Others than the services that were started here may send spans.
    pub(super) elsewhere: bool,
    pub(super) base_url: Option<String>,
    pub(super) http: HttpPlan,
}

impl Session {
    /// Builds the services, starts the receiver and then the services, in order, each ready before the next.
    pub(super) async fn start(
        call: &Invocation,
        identity: &Identity,
        workspace: &Workspace,
        config: &Config,
        folder: &RunFolder,
        with_services: bool,
    ) -> Result<Self, Problem> {
        let services = if with_services { config.services.as_slice() } else { &[] };
        let built = build_services(&call.cargo, &call.flags, workspace, services, folder.path()).await?;
        let forward = forward(config)?;
        for line in forwarding(config) {
            call.console.status("Forwarding", &line);
        }
        let elsewhere = services.is_empty() && config.trace.value != TracePolicy::Off;
        let receiver = Receiver::start(receive::Options {
            port: elsewhere.then_some(OTLP_PORT),
            run: identity.run.clone(),
            trace_prefix: identity.trace_prefix,
            store_bytes: STORE_BYTES,
            quiet: if elsewhere { QUIET_ELSEWHERE } else { QUIET },
            forward,
        })?;
        if elsewhere {
            let text = format!(
                "spans of services that have OTEL_EXPORTER_OTLP_ENDPOINT={} in their environment; with \
                 OTEL_BSP_SCHEDULE_DELAY=200 they come sooner",
                receiver.endpoint()
            );
            call.console.status("Receiving", &text);
        }
        let executables: BTreeMap<_, _> = built.into_iter().map(|it| (it.service, it.executable)).collect();
        let specs = services
            .iter()
            .map(|service| spec(service, &executables, config.service_env(service)?))
            .collect::<Result<Vec<_>, Problem>>()?;
        let data = folder.data().map_err(Problem::from)?;
        let placeholders = Placeholders::allocate(&specs, data.to_string_lossy(), receiver.endpoint())?;
        let (base_url, http) = target(workspace, config, with_services, &placeholders)?;
        if !specs.is_empty() {
            let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
            let unit = if names.len() == 1 { "service" } else { "services" };
            call.console.status("Starting", &format!("{} {unit}: {}", names.len(), names.join(" ")));
        }
        let context = Context {
            guard: guard::command_line().map_err(|error| {
                Problem::new(Outcome::CouldNotRun, format!("cannot find this program: {error}"))
            })?,
            inherited: env::vars().collect(),
            traced: config.trace.value != TracePolicy::Off,
            root: workspace.root.clone(),
            logs: folder.services(),
            secrets: config.secrets(),
        };
        let services = Services::start(&specs, &placeholders, &context).await?;
        Ok(Self { receiver, services, elsewhere, base_url, http })
    }

    /// Ends the services, and then the receiver, so that their last spans are still counted.
    pub(super) async fn end(self, stopper: &Stopper) -> ReceiverCounts {
        let Self { receiver, services, .. } = self;
        services.stop().await;
        let so_far = receiver.counts();
        let flush = if stopper.wish().is_some() { FLUSH_WHEN_STOPPED } else { FLUSH };
        let (tell, told) = oneshot::channel();
        // Not the runtime's own pool, which would be waited for, whoever has lost patience.
        let stopping = thread::Builder::new()
            .name("receiver-stop".to_owned())
            .spawn(move || tell.send(receiver.stop(flush)));
        if stopping.is_err() {
            return so_far;
        }
        let impatience = async {
            stopper.wished().await;
            sleep(FLUSH_WHEN_STOPPED).await;
        };
        tokio::select! {
            counts = told => counts.unwrap_or(so_far),
            () = impatience => so_far,
        }
    }
}

/// Finds what is wrong with the services, and with what is told of their ports, without building or starting any.
pub(super) fn check(workspace: &Workspace, config: &Config, with_services: bool) -> Result<(), Problem> {
    let services = if with_services { config.services.as_slice() } else { &[] };
    check_services(workspace, services)?;
    let named = services.iter().map(|service| (service.name.clone(), PathBuf::from(&service.name)));
    let executables = named.collect();
    // Whether secrets are there is asked where they are used: what is set beside one that is not stays unchecked.
    let env = |service| config.service_env(service).unwrap_or_default();
    let specs = services
        .iter()
        .map(|service| spec(service, &executables, env(service)))
        .collect::<Result<Vec<_>, _>>()?;
    let placeholders = Placeholders::allocate(&specs, "", "")?;
    services::check(&specs, &placeholders)?;
    target(workspace, config, with_services, &placeholders).map(drop)
}

/// Where load goes and how, with the ports of services filled in.
fn target(
    workspace: &Workspace,
    config: &Config,
    with_services: bool,
    placeholders: &Placeholders,
) -> Result<(Option<String>, HttpPlan), Problem> {
    let expand = |key: &str, text: &config::Sourced<String>| {
        placeholders
            .expand(None, &text.value)
            .map_err(|error| Problem::new(Outcome::Usage, format!("{key} ({}): {error}", text.source)))
    };
    let http = config.http.plan(&workspace.root, |path| expand("http.unix-socket", path))?;
    // Without the services there are no ports of theirs.
    let base_url = match &config.base_url {
        Some(url) if !with_services && url.value.contains("{service.") => {
            let message = format!("base-url ({}) is a service's, and --no-services starts none", url.source);
            return Err(Problem { hint: Some("give --base-url"), ..Problem::new(Outcome::Usage, message) });
        }
        url => url.as_ref().map(|url| expand("base-url", url)).transpose()?,
    };
    Ok((base_url, http))
}

fn spec(
    service: &config::Service,
    executables: &BTreeMap<String, PathBuf>,
    env: BTreeMap<String, String>,
) -> Result<ServiceSpec, Problem> {
    let name = &service.name;
    let mut args = service.args.as_ref().map(|args| args.value.clone()).unwrap_or_default();
    let program = match &service.program {
        config::Program::Bin { bin, .. } => {
            let executable = executables.get(name).ok_or_else(|| {
                Problem::new(Outcome::BuildFailed, format!("service `{name}`: `{}` was not built", bin.value))
            })?;
            Program::Built(executable.clone())
        }
        config::Program::Command(command) => {
            let (program, first) = command.value.split_first().ok_or_else(|| {
                Problem::new(Outcome::Usage, format!("service `{name}`: the command is empty"))
            })?;
            args.splice(0..0, first.iter().cloned());
            Program::Command(program.clone())
        }
    };
    Ok(ServiceSpec {
        name: name.clone(),
        program,
        args,
        env,
        dir: service.dir.as_ref().map(|dir| dir.value.clone()),
        port: service.port.as_ref().map(|port| port.value),
        ready: service.probe.as_ref().map(|probe| match probe.value.clone() {
            Probe::Http(url) => Ready::Http { url },
            Probe::Tcp(address) => Ready::Tcp { address },
            Probe::Log(contains) => Ready::LogLine { contains },
        }),
        ready_timeout: service.ready_timeout.value,
    })
}

/// What is forwarded, and where to.
fn forwarding(config: &Config) -> Vec<String> {
    let line = |what: &str, target: &OtlpTarget| {
        let at = &target.endpoint;
        format!("{what} to {} ({})", redact::text(&at.value), at.source)
    };
    match (&config.otlp_traces, &config.otlp_metrics) {
        (Some(traces), Some(metrics)) if traces.endpoint == metrics.endpoint => {
            vec![line("spans and metrics", traces)]
        }
        (traces, metrics) => {
            let signals = [("spans", traces), ("metrics", metrics)];
            signals.iter().filter_map(|(what, target)| Some(line(what, target.as_ref()?))).collect()
        }
    }
}

/// Where else spans and metrics go. One connection carries both, so they have one protocol.
fn forward(config: &Config) -> Result<Option<ForwardOptions>, Problem> {
    let targets = [(Signal::Traces, &config.otlp_traces), (Signal::Metrics, &config.otlp_metrics)];
    let targets: Vec<(Signal, &OtlpTarget)> =
        targets.into_iter().filter_map(|(signal, target)| Some((signal, target.as_ref()?))).collect();
    let protocols: BTreeSet<_> = targets.iter().map(|(_, target)| target.protocol.value.as_str()).collect();
    let Some((_, first)) = targets.first() else { return Ok(None) };
    if protocols.len() > 1 {
        let message =
            "traces and metrics are forwarded by different protocols; give one OTLP protocol for both";
        return Err(Problem::new(Outcome::Usage, message));
    }
    let protocol = match first.protocol.value {
        OtlpProtocol::Grpc => ForwardProtocol::Grpc,
        OtlpProtocol::HttpProtobuf => ForwardProtocol::Http,
    };
    let endpoint = |signal: Signal, target: &OtlpTarget| {
        let url = match protocol {
            ForwardProtocol::Http if !target.exact => {
                format!("{}{}", target.endpoint.value.trim_end_matches('/'), signal.http_path())
            }
            _ => target.endpoint.value.clone(),
        };
        Ok((signal, Endpoint { url, headers: reveal("otlp.headers", &target.headers)? }))
    };
    let endpoints = targets.iter().map(|(signal, target)| endpoint(*signal, target));
    Ok(Some(ForwardOptions::new(protocol, endpoints.collect::<Result<_, Problem>>()?)))
}
