//! `cargo loadtest config`: every effective value and where it came from, secrets masked.

use std::time::Duration;

use serde::Serialize;

use super::load::LoadSettings;
use super::service::{Probe, Program, Service};
use super::source::{Source, Sourced};
use super::value::{MASK, Origin, Value, Values, names_a_secret};
use super::{Config, EVERY_SCENARIO, OtlpTarget};
use crate::model::duration;
use crate::model::load::Stage;
use crate::model::plan::TracePolicy;
use crate::model::redact;

/// One effective value.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Entry<'a> {
    key: String,
    value: serde_json::Value,
    source: &'a Source,
}

/// A table for people: key, value, source.
pub(crate) fn render_text(config: &Config) -> String {
    let rows: Vec<[String; 3]> = entries(config)
        .into_iter()
        .map(|entry| {
            let value = match entry.value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            [entry.key, value, entry.source.to_string()].map(|cell| printable(&cell))
        })
        .collect();
    let width = |column: usize, most: usize| {
        rows.iter().map(|row| row[column].chars().count()).filter(|width| *width <= most).max().unwrap_or(0)
    };
    // A long value pushes its own row out, not the whole column.
    let (keys, values) = (width(0, 60), width(1, 48));
    let lines: Vec<String> =
        rows.iter().map(|[key, value, source]| format!("{key:keys$}  {value:values$}  {source}\n")).collect();
    lines.concat()
}

/// A JSON array of `{key, value, source}`.
pub(crate) fn render_json(config: &Config) -> String {
    serde_json::json!(entries(config)).to_string()
}

/// What stands in a file must not move the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn entries(config: &Config) -> Vec<Entry<'_>> {
    let mut list = List::default();
    list.optional("profile", config.profile.as_ref(), |name| name.as_str().into());
    list.optional("base-url", config.base_url.as_ref(), |url| redact::text(url).into());
    list.optional("env-file", config.env_file.as_ref(), |path| path.as_str().into());
    list.values("env", &config.env, Show::Plain);
    list.values("secrets", &config.secrets, Show::Plain);
    list.add("trace", &config.trace, |policy| trace_text(*policy).into());
    list.optional("seed", config.seed.as_ref(), |seed| (*seed).into());
    list.optional("max-rate", config.max_rate.as_ref(), |rate| rate.to_string().into());
    list.add("keep-runs", &config.keep_runs, |runs| (*runs).into());
    list.optional("watch", config.watch.as_ref(), |targets| {
        targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").into()
    });
    list.optional("reference.iterations", config.reference.iterations.as_ref(), |count| (*count).into());
    list.optional("reference.at-most", config.reference.at_most.as_ref(), |it| duration_text(*it).into());
    for (key, said) in config.http.entries() {
        list.add(key, said, |text| text.as_str().into());
    }
    if config.otlp_traces == config.otlp_metrics {
        list.target("otlp", config.otlp_traces.as_ref());
    } else {
        list.target("otlp.traces", config.otlp_traces.as_ref());
        list.target("otlp.metrics", config.otlp_metrics.as_ref());
    }
    for service in &config.services {
        list.service(service);
    }
    list.load(EVERY_SCENARIO, &config.load);
    for (name, load) in &config.scenarios {
        list.load(name, load);
    }
    list.entries
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Masked where the value is a secret or its name says that it is one.
    Plain,
    /// Always masked.
    Names,
}

#[derive(Debug, Default)]
struct List<'a> {
    entries: Vec<Entry<'a>>,
}

impl<'a> List<'a> {
    fn add<T>(
        &mut self,
        key: impl Into<String>,
        sourced: &'a Sourced<T>,
        show: impl FnOnce(&T) -> serde_json::Value,
    ) {
        let (value, source) = (show(&sourced.value), &sourced.source);
        self.entries.push(Entry { key: key.into(), value, source });
    }

    fn optional<T>(
        &mut self,
        key: impl Into<String>,
        sourced: Option<&'a Sourced<T>>,
        show: impl FnOnce(&T) -> serde_json::Value,
    ) {
        if let Some(sourced) = sourced {
            self.add(key, sourced, show);
        }
    }

    fn values(&mut self, table: &str, values: &'a Values, show: Show) {
        for (key, entry) in values {
            self.add(format!("{table}.{key}"), entry, |value| match value {
                Value::Plain(text) if show == Show::Plain && !names_a_secret(key) => {
                    redact::text(text).into()
                }
                Value::Plain(_) | Value::Dotenv(_) => MASK.into(),
                Value::Secret { from, value } => {
                    let shown = match (value, from) {
                        (Ok(_), _) => MASK,
                        (Err(_), Origin::Variable(_)) => "not set",
                        (Err(_), Origin::File(_)) => "not read",
                    };
                    let from = match from {
                        Origin::Variable(name) => name,
                        Origin::File(path) => path,
                    };
                    format!("{shown} (from {from})").into()
                }
            });
        }
    }

    fn target(&mut self, table: &str, target: Option<&'a OtlpTarget>) {
        let Some(target) = target else { return };
        self.add(format!("{table}.endpoint"), &target.endpoint, |url| redact::text(url).into());
        self.add(format!("{table}.protocol"), &target.protocol, |protocol| protocol.as_str().into());
        self.values(&format!("{table}.headers"), &target.headers, Show::Names);
    }

    fn service(&mut self, service: &'a Service) {
        let key = |field: &str| format!("service.{}.{field}", service.name);
        match &service.program {
            Program::Bin { bin, package, features } => {
                self.add(key("bin"), bin, |bin| bin.as_str().into());
                self.optional(key("package"), package.as_ref(), |package| package.as_str().into());
                self.optional(key("features"), features.as_ref(), |features| features.join(" ").into());
            }
            Program::Command(command) => self
                .add(key("command"), command, |words| command_line(words.iter().map(String::as_str)).into()),
        }
        self.optional(key("args"), service.args.as_ref(), |args| {
            command_line(args.iter().map(String::as_str)).into()
        });
        self.values(&key("env"), &service.env, Show::Plain);
        self.optional(key("dir"), service.dir.as_ref(), |dir| dir.as_str().into());
        if let Some(probe) = &service.probe {
            let (kind, target) = match &probe.value {
                Probe::Http(url) => ("ready.http", url),
                Probe::Tcp(address) => ("ready.tcp", address),
                Probe::Log(line) => ("ready.log", line),
            };
            self.add(key(kind), probe, |_| redact::text(target).into());
            self.add(key("ready.timeout"), &service.ready_timeout, |it| duration_text(*it).into());
        }
        self.optional(key("port"), service.port.as_ref(), |port| (*port).into());
    }

    fn load(&mut self, scenario: &str, load: &'a LoadSettings) {
        let key = |field: &str| format!("scenario.{scenario}.{field}");
        self.optional(key("vus"), load.vus.as_ref(), |vus| (*vus).into());
        self.optional(key("duration"), load.duration.as_ref(), |it| duration_text(*it).into());
        self.optional(key("iterations"), load.iterations.as_ref(), |count| (*count).into());
        self.optional(key("stages"), load.stages.as_ref(), |stages| stages_text(stages).into());
        self.optional(key("rate"), load.rate.as_ref(), |rate| rate.to_string().into());
        self.optional(key("max-vus"), load.max_vus.as_ref(), |vus| (*vus).into());
    }
}

/// A command line without the secrets in it. In a word of several, such as a script for a shell, each is looked at.
fn command_line<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut is_secret = false;
    let shown: Vec<String> = words
        .map(|word| {
            if std::mem::take(&mut is_secret) && !word.starts_with('-') {
                return MASK.to_owned();
            }
            let named =
                word.match_indices(['=', ':']).map(|(at, _)| word.split_at(at + 1)).find(|(name, _)| {
                    let name = &name[..name.len() - 1];
                    name.split_whitespace().next_back().is_some_and(names_a_secret)
                });
            if let Some((name, _)) = named {
                return format!("{name}{MASK}");
            }
            if word.contains(char::is_whitespace) {
                return command_line(word.split_whitespace());
            }
            is_secret = word.starts_with('-') && names_a_secret(word);
            redact::text(word).into_owned()
        })
        .collect();
    shown.join(" ")
}

fn duration_text(value: Duration) -> String {
    duration::format(value)
}

fn trace_text(policy: TracePolicy) -> String {
    match policy {
        TracePolicy::All => "all".to_owned(),
        TracePolicy::Off => "off".to_owned(),
        TracePolicy::Rate(rate) => format!("rate:{rate}/s"),
        TracePolicy::Ratio(ratio) => format!("ratio:{ratio}"),
    }
}

fn stages_text(stages: &[Stage]) -> String {
    let stages: Vec<String> =
        stages.iter().map(|stage| format!("{}:{}", duration::format(stage.duration), stage.target)).collect();
    stages.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_without_its_secrets() {
        for (words, want) in [
            (&["--port", "{port}", "--token=abc", "-v"][..], "--port {port} --token=*** -v"),
            (&["--token", "abc", "--name", "x"], "--token *** --name x"),
            (&["--no-auth", "--token", "abc"], "--no-auth --token ***"),
            (&["--db", "postgres://u:abc@db/x?k=abc"], "--db postgres://REDACTED@db/x?k=REDACTED"),
            (&["env", "DB_PASS=abc", "serve"], "env DB_PASS=*** serve"),
            (&["-H", "Authorization: Bearer abc"], "-H Authorization:***"),
            (&["--header=Authorization: Bearer abc"], "--header=Authorization:***"),
            (&["sh", "-c", "exec serve --secret abc --port 1"], "sh -c exec serve --secret *** --port 1"),
            (
                &["--backend=http://127.0.0.1:{service.auth.port}"],
                "--backend=http://127.0.0.1:{service.auth.port}",
            ),
        ] {
            assert_eq!(command_line(words.iter().copied()), want);
        }
    }
}
