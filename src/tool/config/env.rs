//! What the environment says: `LOADTEST_*`, and the standard variables of OpenTelemetry's exporters.

use percent_encoding::percent_decode_str;

use super::Variables;
use super::error::{ConfigError, nearest};
use super::http::{HttpLayer, HttpLayers};
use super::load::LoadSettings;
use super::schema::{OtlpSettings, Settings};
use super::source::Sourced;
use super::value::{Value, Values};
use crate::model::duration;
use crate::model::http::KEYS;

/// What the names of the tool's own variables begin with.
pub(super) const PREFIX: &str = "LOADTEST_";
const PROFILE: &str = "LOADTEST_PROFILE";
const BASE_URL: &str = "LOADTEST_BASE_URL";
const VUS: &str = "LOADTEST_VUS";
const DURATION: &str = "LOADTEST_DURATION";
const ITERATIONS: &str = "LOADTEST_ITERATIONS";
const STAGES: &str = "LOADTEST_STAGES";
const RATE: &str = "LOADTEST_RATE";
const MAX_VUS: &str = "LOADTEST_MAX_VUS";
const SEED: &str = "LOADTEST_SEED";
const TRACE: &str = "LOADTEST_TRACE";
const REFERENCE: &str = "LOADTEST_REFERENCE";
const OTLP_ENDPOINT: &str = "LOADTEST_OTLP_ENDPOINT";
const WATCH: &str = "LOADTEST_WATCH";
/// Makes a scenario binary run alone; it says nothing to the tool.
const RUN: &str = "LOADTEST_RUN";

const KNOWN: [&str; 14] = [
    PROFILE,
    BASE_URL,
    VUS,
    DURATION,
    ITERATIONS,
    STAGES,
    RATE,
    MAX_VUS,
    SEED,
    TRACE,
    REFERENCE,
    OTLP_ENDPOINT,
    WATCH,
    RUN,
];

/// The profile that the environment names.
pub(super) fn profile(variables: &Variables) -> Option<Sourced<String>> {
    get(variables, PROFILE).map(|name| Sourced::env(name.to_owned(), PROFILE))
}

fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().chain(KEYS.iter().map(|key| key.variable))
}

/// What `LOADTEST_*` says.
pub(super) fn settings(variables: &Variables) -> Result<Settings, ConfigError> {
    if let Some(name) =
        variables.keys().find(|name| name.starts_with(PREFIX) && !known().any(|known| known == *name))
    {
        return Err(ConfigError::UnknownVariable { name: name.clone(), nearest: nearest(name, known()) });
    }
    let load = LoadSettings {
        vus: parsed(variables, VUS, number)?,
        duration: parsed(variables, DURATION, duration::parse)?,
        iterations: parsed(variables, ITERATIONS, number)?,
        stages: parsed(variables, STAGES, |text| {
            text.split(',').map(|stage| stage.trim().parse()).collect()
        })?,
        rate: parsed(variables, RATE, str::parse)?,
        max_vus: parsed(variables, MAX_VUS, number)?,
    };
    load.check()?;
    let mut settings = Settings {
        http: HttpLayers::of(HttpLayer::from_variables(variables)?, false),
        base_url: parsed(variables, BASE_URL, |text| Ok(text.to_owned()))?,
        trace: parsed(variables, TRACE, str::parse)?,
        watch: parsed(variables, WATCH, |text| text.split(',').map(|word| word.trim().parse()).collect())?,
        seed: parsed(variables, SEED, number)?,
        load,
        ..Settings::default()
    };
    settings.otlp.endpoint = parsed(variables, OTLP_ENDPOINT, |text| Ok(text.to_owned()))?;
    settings.reference.iterations =
        parsed(variables, REFERENCE, |text| if text == "off" { Ok(0) } else { number(text) })?;
    Ok(settings)
}

/// What the standard `OTEL_EXPORTER_OTLP_*` variables say.
pub(super) fn otel(variables: &Variables) -> Result<Settings, ConfigError> {
    Ok(Settings {
        otlp: exporter(
            variables,
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_HEADERS",
        )?,
        otlp_traces: exporter(
            variables,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        )?,
        otlp_metrics: exporter(
            variables,
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        )?,
        ..Settings::default()
    })
}

fn exporter(
    variables: &Variables,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
) -> Result<OtlpSettings, ConfigError> {
    Ok(OtlpSettings {
        endpoint: parsed(variables, endpoint, |text| Ok(text.to_owned()))?,
        protocol: parsed(variables, protocol, str::parse)?,
        headers: match get(variables, headers) {
            Some(text) => read_headers(text, headers)?,
            None => Values::new(),
        },
    })
}

/// Reads `name=value,name=value`, the values percent-encoded. The error does not repeat what may be a secret.
fn read_headers(text: &str, variable: &'static str) -> Result<Values, ConfigError> {
    let invalid = |message: String| ConfigError::InvalidVariable { name: variable, message };
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .enumerate()
        .map(|(at, pair)| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid(format!("header {} is not of the form NAME=VALUE", at + 1)))?;
            let value = percent_decode_str(value.trim())
                .decode_utf8()
                .map_err(|_| invalid(format!("the value of header {} is not UTF-8", at + 1)))?;
            Ok((name.trim().to_lowercase(), Sourced::env(Value::Plain(value.into_owned()), variable)))
        })
        .collect()
}

/// An empty variable counts as not set.
fn get<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

fn parsed<T>(
    variables: &Variables,
    name: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<Sourced<T>>, ConfigError> {
    get(variables, name)
        .map(parse)
        .transpose()
        .map(|value| value.map(|value| Sourced::env(value, name)))
        .map_err(|message| ConfigError::InvalidVariable { name, message })
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a whole number in range"))
}
