//! What a service is: its program, its environment, and how to tell that it is ready.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One service of the run. Strings may hold [placeholders](super::placeholders).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceSpec {
    /// Letters, digits, `-`, `_` and `.`; also the name of its log file.
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// The folder it is started in, seen from [`Context::root`](super::Context::root); that itself where it is `None`.
    pub(crate) dir: Option<String>,
    /// The port `{port}` stands for; a free one where it is `None`.
    pub(crate) port: Option<u16>,
    /// `None`: something listens on its port, where it has one, else it was started.
    pub(crate) ready: Option<Ready>,
    pub(crate) ready_timeout: Duration,
}

impl ServiceSpec {
    #[cfg(test)]
    pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(30);

    /// A service that is a shell script.
    #[cfg(test)]
    pub(super) fn shell(name: &str, script: &str) -> Self {
        Self {
            name: name.to_owned(),
            program: Program::Command("sh".to_owned()),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::new(),
            dir: None,
            port: None,
            ready: None,
            ready_timeout: Self::READY_TIMEOUT,
        }
    }

    /// All strings in which placeholders are filled in.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let command = match &self.program {
            Program::Built(_) => None,
            Program::Command(command) => Some(command),
        };
        let ready = match &self.ready {
            Some(
                Ready::Http { url: text } | Ready::Tcp { address: text } | Ready::LogLine { contains: text },
            ) => Some(text),
            None => None,
        };
        let texts =
            command.into_iter().chain(&self.args).chain(self.env.values()).chain(&self.dir).chain(ready);
        texts.map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// A path, taken as it is.
    Built(PathBuf),
    /// A path, or a name to be looked up in `PATH`.
    Command(String),
}

/// How to tell that a service is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A GET answers with 2xx or 3xx.
    Http { url: String },
    /// `host:port` takes a connection.
    Tcp { address: String },
    /// A line of its output contains this text.
    LogLine { contains: String },
}
