//! When a service counts as ready.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::error::ServiceError;
use super::guard::State;
use super::placeholders::{self, PlaceholderError, Placeholders};
use super::spec::{Ready, ServiceSpec};

const PAUSE: Duration = Duration::from_millis(20);
/// How long one attempt may take: a service that takes a connection while it starts may never answer it.
const ATTEMPT: Duration = Duration::from_secs(2);
/// A probe is none of the load's requests: a service that follows its caller makes no spans for it.
const NOT_SAMPLED: &str = "00-00000000000000000000000000000001-0000000000000001-00";

/// A way to tell that a service is ready, with its placeholders filled in.
#[derive(Debug)]
pub(super) enum Probe {
    Started,
    Line(String),
    Tcp(String),
    Http(reqwest::Client, Url),
}

impl Probe {
    pub(super) fn new(spec: &ServiceSpec, values: &Placeholders) -> Result<Self, ServiceError> {
        let service = &spec.name;
        let expand = |text: &str| {
            let placeholder =
                |source: PlaceholderError| ServiceError::Placeholder { service: service.clone(), source };
            values.expand(Some(service), text).map_err(placeholder)
        };
        match &spec.ready {
            None => Ok(match values.port(service) {
                Some(port) if spec.port.is_some() || spec.texts().any(placeholders::names_own_port) => {
                    Self::Tcp(format!("127.0.0.1:{port}"))
                }
                _ => Self::Started,
            }),
            Some(Ready::LogLine { contains }) => Ok(Self::Line(expand(contains)?)),
            Some(Ready::Tcp { address }) => {
                let address = expand(address)?;
                let port =
                    address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
                match port.map(str::parse::<u16>) {
                    Some(Ok(_)) => Ok(Self::Tcp(address)),
                    _ => Err(ServiceError::Address { service: service.clone(), address }),
                }
            }
            Some(Ready::Http { url }) => {
                let url = expand(url)?;
                let parsed = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
                let Some(parsed) = parsed else {
                    return Err(ServiceError::Url { service: service.clone(), url });
                };
                let client =
                    client(parsed.scheme() == "https").map_err(|source| ServiceError::Probe { source })?;
                Ok(Self::Http(client, parsed))
            }
        }
    }

    pub(super) fn wanted_line(&self) -> Option<&str> {
        if let Self::Line(line) = self { Some(line) } else { None }
    }

    /// Where nobody may listen before the service is started: else somebody else would be taken for it.
    pub(super) fn address(&self) -> Option<String> {
        match self {
            Self::Started | Self::Line(_) => None,
            Self::Tcp(address) => Some(address.clone()),
            Self::Http(_, url) => Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)),
        }
    }

    /// Returns when the service is ready. What stands in the way is in `last`.
    pub(super) async fn ready(&self, service: &str, state: &mut watch::Receiver<State>, last: &mut String) {
        loop {
            let attempt = match self {
                Self::Started => return,
                Self::Line(line) => {
                    *last = format!("no line of its output contains `{line}`");
                    let seen = |state: &State| state.services.get(service).is_some_and(|seen| seen.line);
                    if state.wait_for(seen).await.is_ok() {
                        return;
                    }
                    // Without a guard there is no service: the caller watches that too.
                    std::future::pending().await
                }
                Self::Tcp(address) => timeout(ATTEMPT, connect(address)).await,
                Self::Http(client, url) => timeout(ATTEMPT, get(client, url)).await,
            };
            match attempt {
                Ok(Ok(())) => return,
                Ok(Err(error)) => *last = error,
                Err(_) => *last = format!("no answer within {}", crate::model::duration::format(ATTEMPT)),
            }
            sleep(PAUSE).await;
        }
    }
}

/// Whether something takes connections at `address`.
pub(super) async fn answers(address: &str) -> bool {
    matches!(timeout(ATTEMPT, TcpStream::connect(address)).await, Ok(Ok(_)))
}

async fn connect(address: &str) -> Result<(), String> {
    TcpStream::connect(address).await.map(drop).map_err(|error| format!("{address}: {error}"))
}

async fn get(client: &reqwest::Client, url: &Url) -> Result<(), String> {
    match client.get(url.clone()).header("traceparent", NOT_SAMPLED).send().await {
        Ok(response) if response.status().is_success() || response.status().is_redirection() => Ok(()),
        Ok(response) => Err(format!("GET {url} answered {}", response.status())),
        Err(error) => {
            // The last cause says it: "connection refused".
            let cause = std::iter::successors(error.source(), |cause| (*cause).source()).last();
            Err(format!("GET {url}: {}", cause.map_or_else(|| error.to_string(), ToString::to_string)))
        }
    }
}

/// A client without proxies. The system's certificates, which may be missing, are read only where they are needed.
fn client(tls: bool) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = if tls {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(builder.with_no_client_auth());
    Ok(client.build()?)
}
