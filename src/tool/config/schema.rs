//! The keys of `loadtest.toml`, and what one layer says with them.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use super::error::ConfigError;
use super::http::{HttpLayer, HttpLayers};
use super::load::LoadSettings;
use super::reader::{Document, Field, Section};
use super::service::{self, ServiceSettings, read_services};
use super::source::{Sourced, replace};
use super::value::{Origin, Value, Values};
use crate::model::duration;
use crate::model::load::Rate;
use crate::model::plan::TracePolicy;
use crate::tool::usage::Target;

/// The profile whose keys count as if they stood at the top of their file.
pub(super) const DEFAULT_PROFILE: &str = "default";

/// What one layer says.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) base_url: Option<Sourced<String>>,
    /// What `vu.env(key)` answers.
    pub(super) env: Values,
    /// What scenarios and services get, and nobody sees.
    pub(super) secrets: Values,
    /// Instead of `.env`; from the workspace root.
    pub(super) env_file: Option<Sourced<String>>,
    pub(super) trace: Option<Sourced<TracePolicy>>,
    pub(super) seed: Option<Sourced<u64>>,
    pub(super) max_rate: Option<Sourced<Rate>>,
    pub(super) keep_runs: Option<Sourced<usize>>,
    pub(super) watch: Option<Sourced<Vec<Target>>>,
    pub(super) reference: ReferenceSettings,
    pub(super) http: HttpLayers,
    pub(super) otlp: OtlpSettings,
    /// What speaks of one signal only, and wins over `otlp` for it.
    pub(super) otlp_traces: OtlpSettings,
    pub(super) otlp_metrics: OtlpSettings,
    pub(super) services: Vec<ServiceSettings>,
    /// The load of every scenario.
    pub(super) load: LoadSettings,
    /// The load of single scenarios, by name.
    pub(super) scenarios: BTreeMap<String, LoadSettings>,
}

/// The iterations that each scenario runs alone before the load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReferenceSettings {
    pub(crate) iterations: Option<Sourced<u32>>,
    pub(crate) at_most: Option<Sourced<Duration>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OtlpSettings {
    pub(super) endpoint: Option<Sourced<String>>,
    pub(super) protocol: Option<Sourced<OtlpProtocol>>,
    pub(super) headers: Values,
}

/// How OTLP is spoken to a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtlpProtocol {
    Grpc,
    HttpProtobuf,
}

impl OtlpProtocol {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::HttpProtobuf => "http/protobuf",
        }
    }
}

impl FromStr for OtlpProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Grpc, Self::HttpProtobuf].into_iter().find(|known| known.as_str() == text).ok_or_else(|| {
            format!("`{text}` is no protocol that can be spoken here; write grpc or http/protobuf")
        })
    }
}

impl Settings {
    /// Lays `upper` over this.
    pub(super) fn lay_over(&mut self, upper: Self) {
        replace(&mut self.base_url, upper.base_url);
        // A secret in a higher layer is not hidden by a plain value in a lower one.
        self.env.retain(|key, _| !upper.secrets.contains_key(key));
        self.env.extend(upper.env);
        self.secrets.extend(upper.secrets);
        replace(&mut self.env_file, upper.env_file);
        replace(&mut self.trace, upper.trace);
        replace(&mut self.seed, upper.seed);
        replace(&mut self.max_rate, upper.max_rate);
        replace(&mut self.keep_runs, upper.keep_runs);
        replace(&mut self.watch, upper.watch);
        self.http.lay_over(upper.http);
        replace(&mut self.reference.iterations, upper.reference.iterations);
        replace(&mut self.reference.at_most, upper.reference.at_most);
        if upper.otlp.endpoint.is_some() {
            // An endpoint for one signal wins over the general one of its own layer, not over a higher layer's.
            (self.otlp_traces.endpoint, self.otlp_metrics.endpoint) = (None, None);
        }
        self.otlp.lay_over(upper.otlp);
        self.otlp_traces.lay_over(upper.otlp_traces);
        self.otlp_metrics.lay_over(upper.otlp_metrics);
        service::lay_over(&mut self.services, upper.services);
        for (name, load) in upper.scenarios {
            let lower = self.scenarios.remove(&name).unwrap_or_default();
            self.scenarios.insert(name, load.over(&lower));
        }
        if !upper.load.is_empty() {
            for load in self.scenarios.values_mut() {
                *load = upper.load.clone().over(load);
            }
            self.load = upper.load.over(&self.load);
        }
    }
}

impl OtlpSettings {
    fn lay_over(&mut self, upper: Self) {
        replace(&mut self.endpoint, upper.endpoint);
        replace(&mut self.protocol, upper.protocol);
        self.headers.extend(upper.headers);
    }
}

/// What one file says: outside named profiles, and in the profile that is asked for.
#[derive(Debug)]
pub(super) struct FileSettings {
    pub(super) base: Settings,
    pub(super) profile: Option<Settings>,
    /// The profiles it has.
    pub(super) profiles: BTreeSet<String>,
}

impl FileSettings {
    /// Reads the whole file: an error in a profile that is not asked for is an error all the same.
    pub(super) fn read(document: &Document<'_>, wanted: Option<&str>) -> Result<Self, ConfigError> {
        let root = document.root();
        let mut file =
            Self { base: read_settings(&root, Layer::Base)?, profile: None, profiles: BTreeSet::new() };
        let profiles = root.get("profile").map(Field::entries).transpose()?.unwrap_or_default();
        root.finish()?;
        for (name, field) in profiles {
            let is_default = name == DEFAULT_PROFILE;
            let layer = if is_default { Layer::Base } else { Layer::Profile };
            let field = if is_default { field } else { field.of_profile(name) };
            let section = field.section()?;
            let settings = read_settings(&section, layer)?;
            section.finish()?;
            file.profiles.insert(name.to_owned());
            if is_default {
                file.base.lay_over(settings);
            } else if wanted == Some(name) {
                file.profile = Some(settings);
            }
        }
        Ok(file)
    }
}

/// Whether a layer stands below what scenarios say in their code, or above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Base,
    Profile,
}

fn read_settings(section: &Section<'_>, layer: Layer) -> Result<Settings, ConfigError> {
    let mut settings = Settings {
        base_url: section.get("base-url").map(|field| field.string()).transpose()?,
        env: section.get("env").map(read_values).transpose()?.unwrap_or_default(),
        secrets: section.get("secrets").map(read_secrets).transpose()?.unwrap_or_default(),
        env_file: section.get("env-file").map(|field| field.string()).transpose()?,
        trace: section.get("trace").map(|field| field.parsed(str::parse)).transpose()?,
        seed: section.get("seed").map(|field| field.integer()).transpose()?,
        max_rate: section.get("max-rate").map(|field| field.parsed(str::parse)).transpose()?,
        keep_runs: section.get("keep-runs").map(|field| field.integer()).transpose()?,
        watch: section.get("watch").map(|field| field.words(str::parse)).transpose()?,
        http: HttpLayers::of(HttpLayer::read(section)?, layer == Layer::Base),
        otlp: section.get("otlp").map(read_otlp).transpose()?.unwrap_or_default(),
        ..Settings::default()
    };
    if let Some((key, secret)) = settings.secrets.iter().find(|(key, _)| settings.env.contains_key(*key)) {
        let message = "`env` has it, too; keep one of them".to_owned();
        return Err(ConfigError::Invalid {
            at: secret.source.clone(),
            key: format!("secrets.{key}"),
            message,
        });
    }
    if let Some(services) = section.get("service") {
        settings.services = read_services(services.sections()?)?;
    }
    if let Some(field) = section.get("reference") {
        above_code(&field, layer)?;
        settings.reference = read_reference(field)?;
    }
    if let Some(field) = section.get("scenario") {
        above_code(&field, layer)?;
        for (name, load) in field.entries()? {
            settings.scenarios.insert(name.to_owned(), LoadSettings::read(load.section()?)?);
        }
    }
    Ok(settings)
}

/// A scenario's code always says its load and reference, so that a layer below it could never take effect.
fn above_code(field: &Field<'_>, layer: Layer) -> Result<(), ConfigError> {
    if layer == Layer::Profile {
        return Ok(());
    }
    Err(field.invalid(
        "a scenario's own code wins over this; put it into a named profile (`[profile.NAME. …]`, chosen by --profile NAME)",
    ))
}

fn read_reference(field: Field<'_>) -> Result<ReferenceSettings, ConfigError> {
    let section = field.section()?;
    let reference = ReferenceSettings {
        iterations: section.get("iterations").map(|field| field.integer()).transpose()?,
        at_most: section.get("at-most").map(|field| field.parsed(duration::parse)).transpose()?,
    };
    section.finish()?;
    Ok(reference)
}

fn read_otlp(field: Field<'_>) -> Result<OtlpSettings, ConfigError> {
    let section = field.section()?;
    let otlp = OtlpSettings {
        endpoint: section.get("endpoint").map(|field| field.string()).transpose()?,
        protocol: section.get("protocol").map(|field| field.parsed(str::parse)).transpose()?,
        headers: section.get("headers").map(read_values).transpose()?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(otlp)
}

/// Reads a table of strings and of secrets.
pub(super) fn read_values(field: Field<'_>) -> Result<Values, ConfigError> {
    let mut values = Values::new();
    for (key, field) in field.entries()? {
        check_name(key, &field)?;
        let value = if field.is_table() {
            read_secret(field)?
        } else {
            let Sourced { value, source } = field.string()?;
            Sourced::new(Value::Plain(value), source)
        };
        values.insert(key.to_owned(), value);
    }
    Ok(values)
}

/// Reads a table of secrets alone: what is written plainly is none.
fn read_secrets(field: Field<'_>) -> Result<Values, ConfigError> {
    let mut values = Values::new();
    for (key, field) in field.entries()? {
        check_name(key, &field)?;
        if !field.is_table() {
            return Err(
                field.invalid(format!("what stands here is no secret any more; {HOW_TO_WRITE_SECRETS}"))
            );
        }
        values.insert(key.to_owned(), read_secret(field)?);
    }
    Ok(values)
}

const HOW_TO_WRITE_SECRETS: &str = "a secret is written { env = \"VARIABLE\" } or { file = \"PATH\" }";

fn check_name(name: &str, field: &Field<'_>) -> Result<(), ConfigError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(field.invalid("this cannot be a name: it is empty, or has `=` or NUL in it"));
    }
    Ok(())
}

fn read_secret(field: Field<'_>) -> Result<Sourced<Value>, ConfigError> {
    let source = field.source();
    let unclear = field.invalid(HOW_TO_WRITE_SECRETS);
    let secret = field.section()?;
    let origin = match (secret.get("env"), secret.get("file")) {
        (Some(variable), None) => Origin::Variable(variable.string()?.value),
        (None, Some(path)) => Origin::File(path.string()?.value),
        _ => return Err(unclear),
    };
    secret.finish()?;
    Ok(Sourced::new(Value::secret(origin), source))
}
