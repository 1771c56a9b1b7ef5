//! What the layers say of HTTP: those that stand below the scenarios' own code, and those above it.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::ConfigError;
use super::reader::{Field, Section};
use super::source::{Source, Sourced};
use crate::model::http::{Form, HttpPlan, HttpSettings, KEYS, Key, adds_up};

/// What stands in the configuration beside `[http]`, because it is about where load may go and not how.
const BESIDE: &str = "allowed-hosts";

/// The layers on one side of the scenarios' code, laid over each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HttpLayer {
    settings: HttpSettings,
    /// Each key with what was written, the lowest layer first.
    said: Vec<(&'static str, Sourced<String>)>,
}

/// Both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HttpLayers {
    pub(super) below: HttpLayer,
    pub(super) above: HttpLayer,
}

/// What a flag says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpFlag {
    /// As in the configuration.
    pub(crate) key: &'static str,
    pub(crate) flag: &'static str,
    pub(crate) values: Vec<String>,
}

impl HttpLayer {
    /// Takes what a file says: in `[http]`, and beside it.
    pub(super) fn read(root: &Section<'_>) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        if let Some(field) = root.get("http") {
            let section = field.section()?;
            for key in KEYS.into_iter().filter(|key| key.name != BESIDE) {
                layer.take(key, section.get(key.name))?;
            }
            section.finish()?;
        }
        for key in KEYS.into_iter().filter(|key| key.name == BESIDE) {
            layer.take(key, root.get(key.name))?;
        }
        Ok(layer)
    }

    fn take(&mut self, key: Key, field: Option<Field<'_>>) -> Result<(), ConfigError> {
        let Some(field) = field else { return Ok(()) };
        let Sourced { value: values, source } = match key.form {
            Form::Text => field.string().map(|text| Sourced::new(vec![text.value], text.source)),
            Form::Boolean => field.boolean().map(|it| Sourced::new(vec![it.value.to_string()], it.source)),
            Form::List => field.strings(),
        }?;
        self.set(key.name, &values, source).map_err(|why| field.invalid(why))
    }

    fn set(&mut self, key: &'static str, values: &[String], source: Source) -> Result<(), String> {
        self.settings.set(key, values)?;
        self.said.push((key, Sourced::new(values.join(" "), source)));
        Ok(())
    }

    /// What the environment says.
    pub(super) fn from_variables(variables: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        for key in KEYS {
            let Some(text) = variables.get(key.variable).filter(|text| !text.is_empty()) else { continue };
            layer
                .set(key.name, &key.values(text), Source::Env { name: key.variable })
                .map_err(|message| ConfigError::InvalidVariable { name: key.variable, message })?;
        }
        Ok(layer)
    }

    /// What the command line says.
    pub(super) fn from_flags(flags: &[HttpFlag]) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        for HttpFlag { key, flag, values } in flags {
            let at = Source::Flag { name: flag };
            layer.set(key, values, at.clone()).map_err(|message| ConfigError::Invalid {
                at,
                key: (*key).to_owned(),
                message,
            })?;
        }
        Ok(layer)
    }

    pub(super) fn lay_over(&mut self, upper: Self) {
        self.said.retain(|(key, _)| adds_up(key) || !upper.said.iter().any(|(other, _)| other == key));
        self.said.extend(upper.said);
        self.settings = upper.settings.over(&self.settings);
    }
}

impl HttpLayers {
    /// One layer, on its side of the scenarios' code.
    pub(super) fn of(layer: HttpLayer, is_below: bool) -> Self {
        if is_below {
            Self { below: layer, ..Self::default() }
        } else {
            Self { above: layer, ..Self::default() }
        }
    }

    pub(super) fn lay_over(&mut self, upper: Self) {
        self.below.lay_over(upper.below);
        self.above.lay_over(upper.above);
    }

    /// What holds at last, as far as scenarios say nothing: key, what was written, and where.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, &Sourced<String>)> {
        let hidden = |key: &str| !adds_up(key) && self.above.said.iter().any(|(above, _)| *above == key);
        let below = self.below.said.iter().filter(move |(key, _)| !hidden(key));
        below.chain(&self.above.said).map(|(key, text)| {
            let name = if *key == BESIDE { BESIDE.to_owned() } else { format!("http.{key}") };
            (name, text)
        })
    }

    /// As a scenario process is told. Relative paths are below `root`, the workspace's; `expand` fills in placeholders of
    /// the socket's path.
    pub(crate) fn plan<E>(
        &self,
        root: &Path,
        expand: impl Fn(&Sourced<String>) -> Result<String, E>,
    ) -> Result<HttpPlan, E> {
        let settings = |layer: &HttpLayer| {
            let mut settings = layer.settings.clone();
            if let Some((_, text)) = layer.said.iter().rfind(|(key, _)| *key == "unix-socket") {
                settings.unix_socket = Some(expand(text)?.into());
            }
            Ok(settings.rooted(root))
        };
        Ok(HttpPlan { below: settings(&self.below)?, above: settings(&self.above)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, Flags, render_text, resolve};
    use super::*;
    use crate::model::http::HttpVersion;

    fn layers(text: &str, env: &[(&str, &str)], flags: Vec<HttpFlag>) -> Result<HttpLayers, ConfigError> {
        let file = ConfigFile { path: "loadtest.toml".into(), text: text.to_owned() };
        let variables = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let flags = Flags { http: flags, profile: Some("ci".to_owned()), ..Flags::default() };
        let config = resolve(&[file], &variables, &flags)?;
        // What is shown is what there is.
        let shown = render_text(&config);
        assert!(config.http.entries().all(|(key, _)| shown.contains(&key)), "{shown}");
        Ok(config.http)
    }

    fn flag(key: &'static str, flag: &'static str, value: &str) -> HttpFlag {
        HttpFlag { key, flag, values: vec![value.to_owned()] }
    }

    #[test]
    fn what_files_say_stands_below_scenarios_and_profiles_variables_and_flags_above() {
        let text = "allowed-hosts = ['a']\n[http]\nversion = 'http1'\ninsecure = true\nca-files = ['ca.pem', '/b.pem']\n\
                    [profile.ci]\nallowed-hosts = ['b']\nhttp = { connection-reuse = false, connect-timeout = '1s' }\n";
        let env = [("LOADTEST_HTTP_CONNECT_TIMEOUT", "2s"), ("LOADTEST_HTTP_ALLOWED_HOSTS", "c d")];
        let flags = vec![
            flag("version", "--http2", "http2-prior-knowledge"),
            flag("allowed-hosts", "--allow-host", "e"),
            flag("unix-socket", "--unix-socket", "{run_dir}/s"),
        ];
        let layers = layers(text, &env, flags).unwrap();
        let said: Vec<_> = layers
            .entries()
            .map(|(key, said)| format!("{key} {} {}", said.value.replace('\\', "/"), said.source))
            .collect();
        assert_eq!(
            said,
            [
                "http.insecure true loadtest.toml:4",
                "http.ca-files ca.pem /b.pem loadtest.toml:5",
                "allowed-hosts a loadtest.toml:1",
                "http.connection-reuse false loadtest.toml:8 (profile ci)",
                "allowed-hosts b loadtest.toml:7 (profile ci)",
                "http.connect-timeout 2s LOADTEST_HTTP_CONNECT_TIMEOUT",
                "allowed-hosts c d LOADTEST_HTTP_ALLOWED_HOSTS",
                "http.version http2-prior-knowledge --http2",
                "allowed-hosts e --allow-host",
                "http.unix-socket {run_dir}/s --unix-socket",
            ]
        );
        let expand = |text: &Sourced<String>| Ok::<_, String>(text.value.replace("{run_dir}", "run"));
        let HttpPlan { below, above } = layers.plan(Path::new("/shop"), expand).unwrap();
        assert_eq!(below.ca_files, [Path::new("/shop/ca.pem"), Path::new("/b.pem")]);
        assert_eq!((below.version, below.insecure), (Some(HttpVersion::Http1), Some(true)));
        assert_eq!(above.unix_socket.as_deref(), Some(Path::new("/shop/run/s")));
        assert_eq!(above.version, Some(HttpVersion::Http2PriorKnowledge));
        let mut hosts = above.allowed_hosts;
        hosts.sort_unstable();
        assert_eq!(hosts, ["b", "c", "d", "e"]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, env, flags, message) in [
            (
                "[http]\nversoin = 'http1'",
                None,
                None,
                "loadtest.toml:2:1: unknown key `http.versoin`; did you mean `http.version`?",
            ),
            (
                "[http]\nversion = 'http3'",
                None,
                None,
                "loadtest.toml:2: `http.version`: `http3` is no way to speak HTTP",
            ),
            (
                "[http]\ninsecure = 'yes'",
                None,
                None,
                "loadtest.toml:2:12: `http.insecure` must be true or false, but it is a string",
            ),
            ("[http]\nresolve = ['a:b:c']", None, None, "`b` is no port"),
            (
                "",
                Some(("LOADTEST_HTTP_SOURCE_IPS", "x")),
                None,
                "LOADTEST_HTTP_SOURCE_IPS: `x` is no address",
            ),
            ("", Some(("LOADTEST_HTTP_SORCE_IPS", "x")), None, "LOADTEST_HTTP_SOURCE_IPS"),
            ("", None, Some(flag("connect-timeout", "--connect-timeout", "5")), "--connect-timeout: "),
        ] {
            let text = format!("{text}\n[profile.ci]\n");
            let env: Vec<_> = env.into_iter().collect();
            let error = layers(&text, &env, flags.into_iter().collect()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
