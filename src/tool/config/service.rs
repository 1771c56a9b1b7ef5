//! Services under test: what layers say of them, merged by name.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::Section;
use super::schema::read_values;
use super::source::{Source, Sourced, replace};
use super::value::Values;
use crate::model::duration;

/// How long a service may take until it is ready, unless it says otherwise.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A service to start. Strings may hold placeholders such as `{port}`; they are filled in when it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) args: Option<Sourced<Vec<String>>>,
    pub(crate) env: Values,
    /// The working folder; `None`: the workspace root.
    pub(crate) dir: Option<Sourced<String>>,
    /// `None`: ready as soon as it is started.
    pub(crate) probe: Option<Sourced<Probe>>,
    pub(crate) ready_timeout: Sourced<Duration>,
    /// `None`: a free one is chosen.
    pub(crate) port: Option<Sourced<u16>>,
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// A binary of the workspace, which is built first.
    Bin {
        bin: Sourced<String>,
        /// `None`: the one package that has a binary of this name.
        package: Option<Sourced<String>>,
        features: Option<Sourced<Vec<String>>>,
    },
    /// Any program, its arguments after it; at least the program is there.
    Command(Sourced<Vec<String>>),
}

/// How it is known that a service is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probe {
    /// This URL answers with a status of 200 to 399.
    Http(String),
    /// This address accepts a connection.
    Tcp(String),
    /// A line of its output contains this.
    Log(String),
}

/// What one layer says of one service.
#[derive(Debug, Clone)]
pub(super) struct ServiceSettings {
    name: String,
    at: Source,
    bin: Option<Sourced<String>>,
    package: Option<Sourced<String>>,
    features: Option<Sourced<Vec<String>>>,
    command: Option<Sourced<Vec<String>>>,
    args: Option<Sourced<Vec<String>>>,
    env: Values,
    dir: Option<Sourced<String>>,
    probe: Option<Sourced<Probe>>,
    ready_timeout: Option<Sourced<Duration>>,
    port: Option<Sourced<u16>>,
}

impl ServiceSettings {
    pub(super) fn read(at: Source, section: Section<'_>) -> Result<Self, ConfigError> {
        let Some(name) = section.get("name") else {
            let message = "has no `name`".to_owned();
            return Err(ConfigError::Service { at, name: "?".to_owned(), message });
        };
        let (probe, ready_timeout) = match section.get("ready") {
            Some(field) => read_ready(field.section()?)?,
            None => (None, None),
        };
        let service = Self {
            name: name.parsed(check_name)?.value,
            at,
            bin: section.get("bin").map(|field| field.string()).transpose()?,
            package: section.get("package").map(|field| field.string()).transpose()?,
            features: section.get("features").map(|field| field.strings()).transpose()?,
            command: section.get("command").map(|field| field.strings()).transpose()?,
            args: section.get("args").map(|field| field.strings()).transpose()?,
            env: section.get("env").map(read_values).transpose()?.unwrap_or_default(),
            dir: section.get("dir").map(|field| field.string()).transpose()?,
            probe,
            ready_timeout,
            port: section.get("port").map(|field| field.integer()).transpose()?,
        };
        section.finish()?;
        if service.bin.is_some() && service.command.is_some() {
            return Err(service.wrong("has both `bin` and `command`; give one of them"));
        }
        Ok(service)
    }

    fn wrong(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Service { at: self.at.clone(), name: self.name.clone(), message: message.into() }
    }

    /// Lays `upper`, the same service in a higher layer, over this one. A program of another kind replaces the lower
    /// layer's program whole.
    fn lay_over(&mut self, upper: Self) {
        if upper.command.is_some() {
            (self.bin, self.package, self.features) = (None, None, None);
        }
        if upper.bin.is_some() {
            self.command = None;
        }
        replace(&mut self.bin, upper.bin);
        replace(&mut self.package, upper.package);
        replace(&mut self.features, upper.features);
        replace(&mut self.command, upper.command);
        replace(&mut self.args, upper.args);
        self.env.extend(upper.env);
        replace(&mut self.dir, upper.dir);
        replace(&mut self.probe, upper.probe);
        replace(&mut self.ready_timeout, upper.ready_timeout);
        replace(&mut self.port, upper.port);
    }

    /// The service as all layers together say it.
    pub(super) fn complete(self) -> Result<Service, ConfigError> {
        let program = match (self.bin.clone(), self.command.clone()) {
            (Some(bin), _) => {
                Program::Bin { bin, package: self.package.clone(), features: self.features.clone() }
            }
            (None, Some(command)) if command.value.is_empty() => {
                return Err(self.wrong("has an empty `command`; the program comes first in it"));
            }
            (None, Some(_)) if self.package.is_some() || self.features.is_some() => {
                return Err(
                    self.wrong("has `package` or `features`, which go with `bin`, beside a `command`")
                );
            }
            (None, Some(command)) => Program::Command(command),
            (None, None) => {
                return Err(self.wrong("has neither `bin` nor `command`, so there is nothing to start"));
            }
        };
        if self.probe.is_none() && self.ready_timeout.is_some() {
            return Err(
                self.wrong("has a `ready` with a timeout and nothing to wait for; add http, tcp or log")
            );
        }
        Ok(Service {
            name: self.name,
            program,
            args: self.args,
            env: self.env,
            dir: self.dir,
            probe: self.probe,
            ready_timeout: self.ready_timeout.unwrap_or(Sourced::new(READY_TIMEOUT, Source::Default)),
            port: self.port,
        })
    }
}

/// Lays services over those of the layers below: the same name is the same service, a new one comes last.
pub(super) fn lay_over(lower: &mut Vec<ServiceSettings>, upper: Vec<ServiceSettings>) {
    for service in upper {
        match lower.iter_mut().find(|known| known.name == service.name) {
            Some(known) => known.lay_over(service),
            None => lower.push(service),
        }
    }
}

/// Reads the services of one table. A name may stand there once.
pub(super) fn read_services(
    sections: Vec<(Source, Section<'_>)>,
) -> Result<Vec<ServiceSettings>, ConfigError> {
    let mut services: Vec<ServiceSettings> = Vec::new();
    for (at, section) in sections {
        let service = ServiceSettings::read(at, section)?;
        if let Some(first) = services.iter().find(|first| first.name == service.name) {
            return Err(service.wrong(format!("is there already, at {}", first.at)));
        }
        services.push(service);
    }
    Ok(services)
}

/// A service's name becomes part of file names and of placeholders.
fn check_name(name: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(format!("`{name}` is no name for a service; use letters, digits, - and _"));
    }
    Ok(name.to_owned())
}

type Ready = (Option<Sourced<Probe>>, Option<Sourced<Duration>>);

fn read_ready(section: Section<'_>) -> Result<Ready, ConfigError> {
    let mut probe: Option<Sourced<Probe>> = None;
    for (key, kind) in
        [("http", Probe::Http as fn(String) -> Probe), ("tcp", Probe::Tcp), ("log", Probe::Log)]
    {
        let Some(field) = section.get(key) else { continue };
        if probe.is_some() {
            return Err(field.invalid("only one of http, tcp and log can say when a service is ready"));
        }
        let Sourced { value, source } = field.string()?;
        probe = Some(Sourced::new(kind(value), source));
    }
    let timeout = section.get("timeout").map(|field| field.parsed(duration::parse)).transpose()?;
    section.finish()?;
    Ok((probe, timeout))
}
