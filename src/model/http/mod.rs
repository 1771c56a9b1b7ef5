//! How HTTP is spoken: what scenarios, the configuration and flags say of it, and how one layer stands over another.

mod resolve;
mod source;

pub(crate) use resolve::Resolve;
pub(crate) use source::SourceIps;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;
use super::nearest::nearest;

/// The class of errors for want of a source address, or of a free port there.
pub(crate) const GENERATOR_ADDRESS: &str = "generator_address";
/// The class of errors for want of a file descriptor.
pub(crate) const GENERATOR_DESCRIPTORS: &str = "generator_descriptors";
/// The class of errors for want of memory for sockets.
pub(crate) const GENERATOR_MEMORY: &str = "generator_memory";
/// The class of errors for want of certificates to trust.
pub(crate) const GENERATOR_TRUST: &str = "generator_trust";

/// Whether a class is of errors that the generator made itself: the server has no part in them.
pub(crate) fn is_generators_own(class: &str) -> bool {
    [GENERATOR_ADDRESS, GENERATOR_DESCRIPTORS, GENERATOR_MEMORY, GENERATOR_TRUST].contains(&class)
}

/// The version of HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HttpVersion {
    /// HTTP/2 where the server agrees to it in the TLS handshake, else HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 without asking, also without TLS.
    Http2PriorKnowledge,
}

impl HttpVersion {
    const ALL: [Self; 3] = [Self::Negotiated, Self::Http1, Self::Http2PriorKnowledge];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Negotiated => "negotiated",
            Self::Http1 => "http1",
            Self::Http2PriorKnowledge => "http2-prior-knowledge",
        }
    }
}

impl FromStr for HttpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|version| version.as_str() == text);
        known.ok_or_else(|| {
            format!("`{text}` is no way to speak HTTP{}", nearest(text, Self::ALL.map(Self::as_str)))
        })
    }
}

/// What one layer says; `None`, or an empty list: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HttpSettings {
    pub(crate) version: Option<HttpVersion>,
    /// Any certificate will do.
    pub(crate) insecure: Option<bool>,
    /// Certificates that are trusted in place of the platform's. PEM.
    pub(crate) ca_files: Vec<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    /// Of the client certificate, where it is not in the same file.
    pub(crate) client_key: Option<PathBuf>,
    /// Whom the server's certificate has to name, in place of the URL's host.
    pub(crate) server_name: Option<String>,
    pub(crate) resolve: Vec<Resolve>,
    pub(crate) source_ips: Option<SourceIps>,
    pub(crate) unix_socket: Option<PathBuf>,
    pub(crate) connection_reuse: Option<bool>,
    #[serde(with = "duration::optional_text")]
    pub(crate) connect_timeout: Option<Duration>,
    /// Hosts that load may be sent to, beside this machine and the base URL's.
    pub(crate) allowed_hosts: Vec<String>,
}

impl HttpSettings {
    /// `self` where it says something, else `lower`. Addresses of names and allowed hosts add up.
    #[must_use]
    pub(crate) fn over(self, lower: &Self) -> Self {
        let longer = |upper: Vec<_>, lower: &[_]| if upper.is_empty() { lower.to_vec() } else { upper };
        // A certificate and its key go together.
        let (client_cert, client_key) = match self.client_cert {
            Some(cert) => (Some(cert), self.client_key),
            None => (lower.client_cert.clone(), self.client_key.or_else(|| lower.client_key.clone())),
        };
        Self {
            version: self.version.or(lower.version),
            insecure: self.insecure.or(lower.insecure),
            ca_files: longer(self.ca_files, &lower.ca_files),
            client_cert,
            client_key,
            server_name: self.server_name.or_else(|| lower.server_name.clone()),
            resolve: [self.resolve, lower.resolve.clone()].concat(),
            source_ips: self.source_ips.or_else(|| lower.source_ips.clone()),
            unix_socket: self.unix_socket.or_else(|| lower.unix_socket.clone()),
            connection_reuse: self.connection_reuse.or(lower.connection_reuse),
            connect_timeout: self.connect_timeout.or(lower.connect_timeout),
            allowed_hosts: [self.allowed_hosts, lower.allowed_hosts.clone()].concat(),
        }
    }

    /// With relative paths below `folder`.
    #[must_use]
    pub(crate) fn rooted(mut self, folder: &Path) -> Self {
        let single = [&mut self.client_cert, &mut self.client_key, &mut self.unix_socket];
        for path in self.ca_files.iter_mut().chain(single.into_iter().flatten()) {
            *path = folder.join(&*path);
        }
        self
    }

    /// What contradicts itself, once all layers are laid over each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let conflict = |one: &str, other: &str| Err(format!("{one} and {other} contradict each other"));
        if self.client_key.is_some() && self.client_cert.is_none() {
            return Err("there is a client key (client-key) and no client certificate (client-cert)".into());
        }
        if self.insecure == Some(true) && !self.ca_files.is_empty() {
            return conflict("insecure", "ca-files");
        }
        if self.unix_socket.is_some() && self.source_ips.is_some() {
            return conflict("unix-socket", "source-ips");
        }
        if self.unix_socket.is_some() && !self.resolve.is_empty() {
            return conflict("unix-socket", "resolve");
        }
        Ok(())
    }

    /// What variables say, which `variable` is asked for.
    pub(crate) fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (&'static str, String)> {
        let mut settings = Self::default();
        for key in &KEYS {
            if let Some(text) = variable(key.variable) {
                settings.set(key.name, &key.values(&text)).map_err(|why| (key.variable, why))?;
            }
        }
        Ok(settings)
    }

    /// Takes what one key of the configuration says. Only keys that are lists have more than one value.
    pub(crate) fn set(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let one = || values.first().map(String::as_str).unwrap_or_default();
        match key {
            "version" => self.version = Some(one().parse()?),
            "insecure" => self.insecure = Some(boolean(one())?),
            "ca-files" => self.ca_files = values.iter().map(PathBuf::from).collect(),
            "client-cert" => self.client_cert = Some(one().into()),
            "client-key" => self.client_key = Some(one().into()),
            "server-name" => self.server_name = Some(one().to_owned()),
            "resolve" => self.resolve = values.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
            "source-ips" => self.source_ips = Some(values.join(",").parse()?),
            "unix-socket" => self.unix_socket = Some(one().into()),
            "connection-reuse" => self.connection_reuse = Some(boolean(one())?),
            "connect-timeout" => self.connect_timeout = Some(duration::parse(one())?),
            "allowed-hosts" => self.allowed_hosts = values.to_vec(),
            _ => return Err(format!("`{key}` is no setting{}", nearest(key, KEYS.map(|key| key.name)))),
        }
        Ok(())
    }
}

/// A key of the configuration, and the variable that says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) variable: &'static str,
    pub(crate) form: Form,
}

/// What is written at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Boolean,
    List,
}

impl Key {
    const fn new(name: &'static str, variable: &'static str, form: Form) -> Self {
        Self { name, variable, form }
    }

    /// The values in a variable: those of a list stand between spaces.
    pub(crate) fn values(self, text: &str) -> Vec<String> {
        match self.form {
            Form::List => text.split_whitespace().map(str::to_owned).collect(),
            Form::Text | Form::Boolean => vec![text.to_owned()],
        }
    }
}

pub(crate) const KEYS: [Key; 12] = [
    Key::new("version", "LOADTEST_HTTP_VERSION", Form::Text),
    Key::new("insecure", "LOADTEST_HTTP_INSECURE", Form::Boolean),
    Key::new("ca-files", "LOADTEST_HTTP_CA_FILES", Form::List),
    Key::new("client-cert", "LOADTEST_HTTP_CLIENT_CERT", Form::Text),
    Key::new("client-key", "LOADTEST_HTTP_CLIENT_KEY", Form::Text),
    Key::new("server-name", "LOADTEST_HTTP_SERVER_NAME", Form::Text),
    Key::new("resolve", "LOADTEST_HTTP_RESOLVE", Form::List),
    Key::new("source-ips", "LOADTEST_HTTP_SOURCE_IPS", Form::List),
    Key::new("unix-socket", "LOADTEST_HTTP_UNIX_SOCKET", Form::Text),
    Key::new("connection-reuse", "LOADTEST_HTTP_CONNECTION_REUSE", Form::Boolean),
    Key::new("connect-timeout", "LOADTEST_HTTP_CONNECT_TIMEOUT", Form::Text),
    Key::new("allowed-hosts", "LOADTEST_HTTP_ALLOWED_HOSTS", Form::List),
];

/// Whether what layers say at a key adds up.
pub(crate) fn adds_up(key: &str) -> bool {
    matches!(key, "resolve" | "allowed-hosts")
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// The layers around what a scenario says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HttpPlan {
    pub(crate) below: HttpSettings,
    pub(crate) above: HttpSettings,
}

impl HttpPlan {
    /// What holds for a scenario that says `own`.
    pub(crate) fn around(&self, own: &HttpSettings) -> Result<HttpSettings, String> {
        let all = self.above.clone().over(&own.clone().over(&self.below));
        all.check().map(|()| all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_above_wins_and_lists_of_hosts_add_up() {
        let own = HttpSettings {
            version: Some(HttpVersion::Http1),
            insecure: Some(true),
            allowed_hosts: vec!["own".into()],
            resolve: vec!["own:80:127.0.0.1".parse().unwrap()],
            client_cert: Some("own.pem".into()),
            client_key: Some("own.key".into()),
            ..HttpSettings::default()
        };
        let plan = HttpPlan {
            below: HttpSettings {
                version: Some(HttpVersion::Negotiated),
                connection_reuse: Some(false),
                allowed_hosts: vec!["below".into()],
                ..HttpSettings::default()
            },
            above: HttpSettings {
                insecure: Some(false),
                resolve: vec!["own:80:127.0.0.2".parse().unwrap()],
                client_cert: Some("both.pem".into()),
                ..HttpSettings::default()
            },
        };
        let all = plan.around(&own).unwrap();
        assert_eq!((all.version, all.insecure), (Some(HttpVersion::Http1), Some(false)));
        assert_eq!(all.connection_reuse, Some(false));
        assert_eq!(all.allowed_hosts, ["own", "below"]);
        let addresses: Vec<_> = all.resolve.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["own:80:127.0.0.2", "own:80:127.0.0.1"], "the first that fits counts");
        assert_eq!((all.client_cert, all.client_key), (Some("both.pem".into()), None), "keys are not mixed");
        let wire = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<HttpPlan>(&wire).unwrap(), plan);
    }

    #[test]
    fn contradictions_are_refused_with_both_names() {
        let some = |path: &str| Some(PathBuf::from(path));
        let base = HttpSettings::default;
        for (settings, words) in [
            (HttpSettings { client_key: some("k"), ..base() }, "client-cert"),
            (HttpSettings { insecure: Some(true), ca_files: vec!["c".into()], ..base() }, "ca-files"),
            (
                HttpSettings { unix_socket: some("s"), source_ips: "127.0.0.1".parse().ok(), ..base() },
                "source-ips",
            ),
            (
                HttpSettings {
                    unix_socket: some("s"),
                    resolve: vec!["a:1:127.0.0.1".parse().unwrap()],
                    ..base()
                },
                "resolve",
            ),
        ] {
            let error = HttpPlan::default().around(&settings).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn every_setting_has_a_variable() {
        let value = |name: &str| {
            let text = match name {
                "LOADTEST_HTTP_VERSION" => "http1",
                "LOADTEST_HTTP_INSECURE" => "1",
                "LOADTEST_HTTP_CONNECTION_REUSE" => "false",
                "LOADTEST_HTTP_CONNECT_TIMEOUT" => "2s",
                "LOADTEST_HTTP_SOURCE_IPS" => "127.0.0.2-127.0.0.4",
                "LOADTEST_HTTP_RESOLVE" => "a:80:127.0.0.1,::1 b:81:127.0.0.2",
                "LOADTEST_HTTP_ALLOWED_HOSTS" => "a b",
                _ => "x",
            };
            Some(text.to_owned())
        };
        let settings = HttpSettings::from_variables(value).unwrap();
        assert_eq!((settings.resolve.len(), settings.allowed_hosts.len()), (2, 2));
        let said = serde_json::to_value(&settings).unwrap();
        let silent: Vec<_> = said
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
            .collect();
        assert!(silent.is_empty(), "{silent:?}");
        assert_eq!(said.as_object().unwrap().len(), KEYS.len());
        assert!(HttpSettings::default().set("versoin", &[]).unwrap_err().contains("`version`?"));
        let refuse = |name: &str| (name == "LOADTEST_HTTP_VERSION").then(|| "http1.1".to_owned());
        let (name, why) = HttpSettings::from_variables(refuse).unwrap_err();
        assert_eq!(name, "LOADTEST_HTTP_VERSION");
        assert!(why.contains("did you mean `http1`?"), "{why}");
    }
}
