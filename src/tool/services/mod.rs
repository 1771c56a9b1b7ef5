//! The services under test: started in order, ready, their output kept, and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use tokio::sync::watch;
use tokio::time::timeout;

mod environment;
mod error;
pub(crate) mod guard;
mod logs;
mod placeholders;
mod ready;
mod spec;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use crate::model::secret::Secrets;
use environment::{Telemetry, environment};
use error::LogTail;
pub(crate) use error::ServiceError;
use guard::{Guard, Start, State};
pub(crate) use placeholders::{PlaceholderError, Placeholders};
use ready::Probe;
pub(crate) use spec::{Program, Ready, ServiceSpec};

/// What all services of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// How to start a guard: [`guard::command_line`].
    pub(crate) guard: Vec<OsString>,
    /// The environment that services inherit from.
    pub(crate) inherited: BTreeMap<String, String>,
    /// `false` with `--trace off`: then services record no spans.
    pub(crate) traced: bool,
    /// Where services are started that have no folder of their own.
    pub(crate) root: PathBuf,
    /// The folder for `NAME.log`.
    pub(crate) logs: PathBuf,
    /// Values that must not get into a log.
    pub(crate) secrets: Secrets,
}

/// The running services. Dropping them ends them too, but does not wait for it.
#[derive(Debug)]
pub(crate) struct Services {
    /// `None` without services.
    guard: Option<Guard>,
    logs: PathBuf,
    started: Vec<(String, u32)>,
}

impl Services {
    /// Starts the services one after the other, each when the one before is ready. When one cannot be started, those
    /// before it are ended.
    pub(crate) async fn start(
        specs: &[ServiceSpec],
        placeholders: &Placeholders,
        context: &Context,
    ) -> Result<Self, ServiceError> {
        let mut services = Self { guard: None, logs: context.logs.clone(), started: Vec::new() };
        let plans = plan(specs, placeholders, context)?;
        if plans.is_empty() {
            return Ok(services);
        }
        let mut guard =
            Guard::start(&context.guard).await.map_err(|source| ServiceError::Guard { source })?;
        let mut failed = None;
        for (spec, start, probe) in plans {
            match start_one(&mut guard, spec, start, &probe).await {
                Ok(pid) => services.started.push((spec.name.clone(), pid)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        services.guard = Some(guard);
        match failed {
            None => Ok(services),
            Some(error) => {
                services.stop().await;
                Err(error)
            }
        }
    }

    /// Returns when a service, or the guard, has ended without being asked to. Cancel safe; without services it never
    /// returns.
    pub(crate) async fn exited(&self) -> ServiceError {
        let Some(guard) = &self.guard else { return std::future::pending().await };
        let mut state = guard.state();
        let ended = |state: &State| {
            state.services.iter().find_map(|(name, seen)| Some((name.clone(), seen.ended.clone()?)))
        };
        match state.wait_for(|state| state.lost || state.gone || ended(state).is_some()).await {
            Ok(state) if !state.lost && !state.gone => {
                let (service, status) = ended(&state).unwrap_or_default();
                let log = LogTail::read(&self.log(&service));
                ServiceError::Ended { service, status, log }
            }
            _ => ServiceError::GuardGone,
        }
    }

    /// The services' names and process ids, in the order of their start.
    pub(crate) fn pids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.started.iter().map(|(name, pid)| (name.as_str(), *pid))
    }

    /// The process id of the guard, while it lives.
    #[cfg(test)]
    pub(crate) fn guard_pid(&self) -> Option<u32> {
        self.guard.as_ref().and_then(Guard::pid)
    }

    /// When the guard dies, everything below this process that is not in its process group is taken for a service's
    /// and ended. This exempts a process that was started in a group of its own, and what it starts.
    pub(crate) fn spare(&self, pid: u32) {
        if let Some(guard) = &self.guard {
            guard.spare(pid);
        }
    }

    pub(crate) fn log(&self, service: &str) -> PathBuf {
        self.logs.join(format!("{service}.log"))
    }

    /// Ends all services and returns when none of their processes is left: they are asked first, and killed after one
    /// second.
    pub(crate) async fn stop(self) {
        if let Some(guard) = self.guard {
            guard.end().await;
        }
    }
}

/// Finds everything that can be wrong in the configuration of services, without starting any.
pub(crate) fn check(specs: &[ServiceSpec], placeholders: &Placeholders) -> Result<(), ServiceError> {
    let mut names = BTreeSet::new();
    specs.iter().try_for_each(|spec| {
        check_name(&spec.name)?;
        if !names.insert(&spec.name) {
            return Err(ServiceError::DuplicateName { name: spec.name.clone() });
        }
        Probe::new(spec, placeholders)?;
        let placeholder = |source| ServiceError::Placeholder { service: spec.name.clone(), source };
        let fill_in = |text| placeholders.expand(Some(&spec.name), text).map(drop);
        spec.texts().try_for_each(fill_in).map_err(placeholder)
    })
}

/// What each service is started with; what is wrong in the configuration is found before any is.
fn plan<'a>(
    specs: &'a [ServiceSpec],
    placeholders: &Placeholders,
    context: &Context,
) -> Result<Vec<(&'a ServiceSpec, Start, Probe)>, ServiceError> {
    check(specs, placeholders)?;
    specs
        .iter()
        .map(|spec| {
            let probe = Probe::new(spec, placeholders)?;
            let placeholder = |source| ServiceError::Placeholder { service: spec.name.clone(), source };
            let start = fill_in(spec, placeholders, context, &probe).map_err(placeholder)?;
            Ok((spec, start, probe))
        })
        .collect()
}

fn check_name(name: &str) -> Result<(), ServiceError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(ServiceError::Name { name: name.to_owned() })
    }
}

fn fill_in(
    spec: &ServiceSpec,
    placeholders: &Placeholders,
    context: &Context,
    probe: &Probe,
) -> Result<Start, PlaceholderError> {
    let expand = |text: &String| placeholders.expand(Some(&spec.name), text);
    let telemetry = Telemetry { endpoint: placeholders.otlp_endpoint(), traced: context.traced };
    let own: BTreeMap<String, String> = spec
        .env
        .iter()
        .map(|(name, value)| Ok((name.clone(), expand(value)?)))
        .collect::<Result<_, PlaceholderError>>()?;
    Ok(Start {
        name: spec.name.clone(),
        program: match &spec.program {
            Program::Built(path) => path.clone(),
            Program::Command(command) => expand(command)?.into(),
        },
        args: spec.args.iter().map(expand).collect::<Result<_, _>>()?,
        env: environment(context.inherited.clone(), &spec.name, telemetry, own),
        dir: match &spec.dir {
            Some(dir) => context.root.join(expand(dir)?),
            None => context.root.clone(),
        },
        log: context.logs.join(format!("{}.log", spec.name)),
        wanted_line: probe.wanted_line().map(str::to_owned),
        secrets: context.secrets.clone(),
    })
}

/// Starts one service and waits until it is ready.
async fn start_one(
    guard: &mut Guard,
    spec: &ServiceSpec,
    start: Start,
    probe: &Probe,
) -> Result<u32, ServiceError> {
    let service = || spec.name.clone();
    if let Some(address) = probe.address()
        && ready::answers(&address).await
    {
        return Err(ServiceError::PortTaken { service: service(), address });
    }
    let (program, log) = (start.program.clone(), start.log.clone());
    guard.request(start).await.map_err(|source| ServiceError::Guard { source })?;

    let mut state = guard.state();
    let pid = match started(&mut state, &spec.name).await? {
        Ok(pid) => pid,
        Err(reason) => return Err(ServiceError::NotStarted { service: service(), program, reason }),
    };
    let mut last = String::new();
    let mut watched = state.clone();
    let (limit, log) = (spec.ready_timeout, || LogTail::read(&log));
    tokio::select! {
        // A service that ended is not ready, even if something answers in its place.
        biased;
        status = ended(&mut state, &spec.name) => {
            Err(ServiceError::EndedEarly { service: service(), status: status?, log: log() })
        }
        ready = timeout(limit, probe.ready(&spec.name, &mut watched, &mut last)) => match ready {
            Ok(()) => Ok(pid),
            Err(_) => Err(ServiceError::NotReady { service: service(), timeout: limit, last, log: log() }),
        },
    }
}

async fn started(
    state: &mut watch::Receiver<State>,
    service: &str,
) -> Result<Result<u32, String>, ServiceError> {
    let answer = |state: &State| state.services.get(service).and_then(|seen| seen.started.clone());
    let state = state.wait_for(|state| state.gone || answer(state).is_some()).await;
    state.ok().and_then(|state| answer(&state)).ok_or(ServiceError::GuardGone)
}

async fn ended(state: &mut watch::Receiver<State>, service: &str) -> Result<String, ServiceError> {
    let status = |state: &State| state.services.get(service).and_then(|seen| seen.ended.clone());
    let state = state.wait_for(|state| state.gone || status(state).is_some()).await;
    state.ok().and_then(|state| status(&state)).ok_or(ServiceError::GuardGone)
}
