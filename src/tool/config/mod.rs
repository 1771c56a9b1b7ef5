//! The configuration: `loadtest.toml`, profiles, environment and flags, in layers; and where each value came from.
//!
//! [`resolve`] is pure. [`load()`] reads the files and the environment for it.

mod dotenv;
mod env;
mod error;
mod http;
mod load;
mod outside;
mod reader;
mod render;
mod schema;
mod service;
mod source;
#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) use error::{ConfigError, nearest};
pub(crate) use http::{HttpFlag, HttpLayers};
pub(crate) use load::LoadSettings;
pub(crate) use render::{render_json, render_text};
pub(crate) use schema::{OtlpProtocol, ReferenceSettings};
pub(crate) use service::{Probe, Program, Service};
pub(crate) use source::{Source, Sourced};
pub(crate) use value::{Value, Values, reveal};

use crate::model::load::{LoadOverride, Rate, Stage};
use crate::model::plan::{ReferencePlan, TracePolicy};
use crate::model::secret::Secrets;
use crate::sys;
use crate::tool::usage::Target;
use http::HttpLayer;
use reader::Document;
use schema::{DEFAULT_PROFILE, FileSettings, OtlpSettings, Settings};
use value::reveal_templates;

/// How many runs are kept, unless the configuration says otherwise.
const KEEP_RUNS: usize = 50;

/// The name in [`Config::overrides`] that stands for every scenario without one of its own.
const EVERY_SCENARIO: &str = "*";

/// The process's environment.
type Variables = BTreeMap<String, String>;

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) profile: Option<String>,
    pub(crate) base_url: Option<String>,
    /// `-e KEY=VALUE`, split.
    pub(crate) env: Vec<(String, String)>,
    /// No `.env` is read.
    pub(crate) no_env_file: bool,
    pub(crate) vus: Option<u32>,
    pub(crate) duration: Option<std::time::Duration>,
    pub(crate) iterations: Option<u64>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) rate: Option<Rate>,
    pub(crate) max_vus: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) trace: Option<TracePolicy>,
    pub(crate) no_reference: bool,
    pub(crate) watch: Vec<Target>,
    pub(crate) http: Vec<HttpFlag>,
    pub(crate) otlp_endpoint: Option<String>,
    pub(crate) no_otlp: bool,
}

/// The effective configuration of one package's scenarios.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) profile: Option<Sourced<String>>,
    pub(crate) base_url: Option<Sourced<String>>,
    /// In place of the `.env` files; from the workspace root.
    pub(crate) env_file: Option<Sourced<String>>,
    /// For scenarios.
    pub(crate) env: Values,
    /// For scenarios and services.
    pub(crate) secrets: Values,
    pub(crate) trace: Sourced<TracePolicy>,
    /// Decides about everything random that is to come again.
    pub(crate) seed: Option<Sourced<u64>>,
    /// More iterations than that are not begun, where it is known before.
    pub(crate) max_rate: Option<Sourced<Rate>>,
    pub(crate) keep_runs: Sourced<usize>,
    /// Processes whose use of the host is told, beside the services and the generator.
    pub(crate) watch: Option<Sourced<Vec<Target>>>,
    pub(crate) http: HttpLayers,
    pub(crate) reference: ReferenceSettings,
    /// Where else traces go.
    pub(crate) otlp_traces: Option<OtlpTarget>,
    /// Where else metrics go.
    pub(crate) otlp_metrics: Option<OtlpTarget>,
    /// In the order in which they are started.
    pub(crate) services: Vec<Service>,
    /// The load of every scenario that is not in `scenarios`.
    pub(crate) load: LoadSettings,
    pub(crate) scenarios: BTreeMap<String, LoadSettings>,
}

/// A collector that one signal is forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpTarget {
    pub(crate) endpoint: Sourced<String>,
    /// The endpoint is the signal's own URL, to be used as it is; otherwise it is a base, to which OTLP/HTTP adds
    /// `/v1/traces` or `/v1/metrics`.
    pub(crate) exact: bool,
    pub(crate) protocol: Sourced<OtlpProtocol>,
    pub(crate) headers: Values,
}

/// A configuration file's content, with the path that messages give.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Reads the workspace's file and the package's, resolves them with the process's environment and `flags`, and takes in what
/// they refer to.
pub(crate) fn load(
    workspace_root: &Path,
    package_folder: Option<&Path>,
    flags: &Flags,
) -> Result<Config, ConfigError> {
    let mut files = Vec::new();
    files.extend(read_file(workspace_root, workspace_root)?);
    if let Some(folder) = package_folder.filter(|folder| *folder != workspace_root) {
        files.extend(read_file(workspace_root, folder)?);
    }
    let variables = sys::env::vars().collect();
    let mut config = resolve(&files, &variables, flags)?;
    let dotenv = if flags.no_env_file {
        outside::Dotenv::new()
    } else {
        outside::read_dotenv(workspace_root, package_folder, &config, &variables)?
    };
    config.take_in(&dotenv, &variables, |path| outside::read_secret(workspace_root, path));
    Ok(config)
}

fn read_file(workspace_root: &Path, folder: &Path) -> Result<Option<ConfigFile>, ConfigError> {
    let mut found: Option<ConfigFile> = None;
    for name in ["loadtest.toml", ".config/loadtest.toml"] {
        let full = folder.join(name);
        let path = full.strip_prefix(workspace_root).unwrap_or(&full).to_owned();
        match sys::fs::read_text(&full) {
            Ok(None) => {}
            Ok(Some(text)) => {
                if let Some(first) = found {
                    return Err(ConfigError::TwoFiles { first: first.path, second: path });
                }
                found = Some(ConfigFile { path, text });
            }
            Err(source) => return Err(ConfigError::Read { path, source }),
        }
    }
    Ok(found)
}

/// Lays the layers over each other: the files in order, the last one on top, each with its default profile; then the
/// profile asked for, again in the order of the files; then the environment; then the flags.
pub(crate) fn resolve(
    files: &[ConfigFile],
    variables: &Variables,
    flags: &Flags,
) -> Result<Config, ConfigError> {
    let profile = match &flags.profile {
        Some(name) => Some(Sourced::flag(name.clone(), "--profile")),
        None => env::profile(variables),
    };
    let wanted = profile.as_ref().map(|name| name.value.as_str());

    let mut settings = Settings::default();
    let mut named = Vec::new();
    let mut known = BTreeSet::from([DEFAULT_PROFILE.to_owned()]);
    for file in files {
        let file = FileSettings::read(&Document::parse(&file.path, &file.text)?, wanted)?;
        settings.lay_over(file.base);
        named.extend(file.profile);
        known.extend(file.profiles);
    }
    if let Some(name) = profile.as_ref().filter(|name| !known.contains(&name.value)) {
        return Err(ConfigError::UnknownProfile {
            name: name.value.clone(),
            at: Box::new(name.source.clone()),
            nearest: nearest(&name.value, known.iter().map(String::as_str)),
            known: known.into_iter().collect(),
        });
    }
    for layer in named {
        settings.lay_over(layer);
    }
    settings.lay_over(env::otel(variables)?);
    settings.lay_over(env::settings(variables)?);
    settings.lay_over(flag_settings(flags)?);
    let mut config = complete(settings, profile, flags.no_otlp)?;
    config.take_in(&outside::Dotenv::new(), variables, |_| Err("which was not read".to_owned()));
    Ok(config)
}

fn flag_settings(flags: &Flags) -> Result<Settings, ConfigError> {
    let load = LoadSettings {
        vus: flags.vus.map(|it| Sourced::flag(it, "--vus")),
        duration: flags.duration.map(|it| Sourced::flag(it, "--duration")),
        iterations: flags.iterations.map(|it| Sourced::flag(it, "--iterations")),
        stages: (!flags.stages.is_empty()).then(|| Sourced::flag(flags.stages.clone(), "--stage")),
        rate: flags.rate.map(|it| Sourced::flag(it, "--rate")),
        max_vus: flags.max_vus.map(|it| Sourced::flag(it, "--max-vus")),
    };
    load.check()?;
    let value =
        |(key, value): &(String, String)| (key.clone(), Sourced::flag(Value::Plain(value.clone()), "-e"));
    let mut settings = Settings {
        base_url: flags.base_url.clone().map(|it| Sourced::flag(it, "--base-url")),
        env: flags.env.iter().map(value).collect(),
        trace: flags.trace.map(|it| Sourced::flag(it, "--trace")),
        http: HttpLayers::of(HttpLayer::from_flags(&flags.http)?, false),
        watch: (!flags.watch.is_empty()).then(|| Sourced::flag(flags.watch.clone(), "--watch")),
        seed: flags.seed.map(|it| Sourced::flag(it, "--seed")),
        load,
        ..Settings::default()
    };
    settings.otlp.endpoint = flags.otlp_endpoint.clone().map(|it| Sourced::flag(it, "--otlp-endpoint"));
    settings.reference.iterations = flags.no_reference.then(|| Sourced::flag(0, "--no-reference"));
    Ok(settings)
}

fn complete(
    settings: Settings,
    profile: Option<Sourced<String>>,
    no_otlp: bool,
) -> Result<Config, ConfigError> {
    let target = |signal| (!no_otlp).then(|| otlp_target(&settings.otlp, signal)).flatten();
    Ok(Config {
        profile,
        otlp_traces: target(settings.otlp_traces),
        otlp_metrics: target(settings.otlp_metrics),
        base_url: settings.base_url,
        env_file: settings.env_file,
        env: settings.env,
        secrets: settings.secrets,
        trace: settings.trace.unwrap_or(Sourced::new(TracePolicy::default(), Source::Default)),
        seed: settings.seed,
        max_rate: settings.max_rate,
        keep_runs: settings.keep_runs.unwrap_or(Sourced::new(KEEP_RUNS, Source::Default)),
        watch: settings.watch,
        http: settings.http,
        reference: settings.reference,
        services: settings
            .services
            .into_iter()
            .map(service::ServiceSettings::complete)
            .collect::<Result<_, _>>()?,
        load: settings.load,
        scenarios: settings.scenarios,
    })
}

/// Where one signal goes: what is said for it alone wins over what is said for all.
fn otlp_target(general: &OtlpSettings, signal: OtlpSettings) -> Option<OtlpTarget> {
    let exact = signal.endpoint.is_some();
    let endpoint = signal.endpoint.or_else(|| general.endpoint.clone())?;
    let protocol = signal
        .protocol
        .or_else(|| general.protocol.clone())
        .unwrap_or_else(|| Sourced::new(usual_protocol(&endpoint.value), Source::Default));
    let headers = if signal.headers.is_empty() { general.headers.clone() } else { signal.headers };
    Some(OtlpTarget { endpoint, exact, protocol, headers })
}

/// 4317 is the registered port of OTLP/gRPC; everything else is taken for OTLP/HTTP, the standard's default.
fn usual_protocol(endpoint: &str) -> OtlpProtocol {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or(authority);
    if authority.ends_with(":4317") { OtlpProtocol::Grpc } else { OtlpProtocol::HttpProtobuf }
}

impl Config {
    /// What stands over the scenarios' own loads, as [`crate::model::plan::RunPlan`] wants it.
    pub(crate) fn overrides(&self) -> BTreeMap<String, LoadOverride> {
        let every = (!self.load.is_empty()).then(|| (EVERY_SCENARIO.to_owned(), self.load.to_override()));
        let own = self.scenarios.iter().map(|(name, load)| (name.clone(), load.to_override()));
        own.chain(every).filter(|(_, load)| !load.is_empty()).collect()
    }

    /// The reference phase that stands over the scenarios' own; `None`: nothing was said.
    pub(crate) fn reference_plan(&self) -> Option<ReferencePlan> {
        let ReferenceSettings { iterations, at_most } = &self.reference;
        if iterations.is_none() && at_most.is_none() {
            return None;
        }
        let mut plan = ReferencePlan::default();
        if let Some(iterations) = iterations {
            plan.iterations = iterations.value;
        }
        if let Some(at_most) = at_most {
            plan.at_most = at_most.value;
        }
        Some(plan)
    }

    pub(crate) fn watched(&self) -> &[Target] {
        self.watch.as_ref().map_or(&[], |watch| watch.value.as_slice())
    }

    /// What `vu.env(key)` answers. A secret whose variable is not set is an error.
    pub(crate) fn scenario_env(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut values = self.secrets.clone();
        values.retain(|key, _| !self.env.contains_key(key));
        let mut all = reveal("secrets", &values)?;
        all.extend(reveal("env", &self.env)?);
        Ok(all)
    }

    /// What is set in the environment of a service, as templates: the secrets, and over them its own.
    pub(crate) fn service_env(&self, service: &Service) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut all = reveal_templates("secrets", &self.secrets)?;
        all.extend(reveal_templates(&format!("service.{}.env", service.name), &service.env)?);
        Ok(all)
    }

    /// Whether every secret that a run needs is there.
    pub(crate) fn check_secrets(&self, with_services: bool) -> Result<(), ConfigError> {
        self.scenario_env()?;
        for target in self.otlp_traces.iter().chain(&self.otlp_metrics) {
            reveal("otlp.headers", &target.headers)?;
        }
        let services = if with_services { self.services.as_slice() } else { &[] };
        services.iter().try_for_each(|service| self.service_env(service).map(drop))
    }

    /// Every secret value that is known, for masking it wherever it could be written.
    pub(crate) fn secrets(&self) -> Secrets {
        let targets = self.otlp_traces.iter().chain(&self.otlp_metrics).map(|target| &target.headers);
        let tables =
            self.services.iter().map(|service| &service.env).chain([&self.env, &self.secrets]).chain(targets);
        let values: Vec<_> = tables.flat_map(value::secrets).collect();
        values.iter().map(AsRef::as_ref).collect()
    }
}
