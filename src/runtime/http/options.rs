//! How a scenario says that HTTP is spoken.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::http::{HttpSettings, HttpVersion, Resolve};

/// How a scenario's users connect and speak HTTP: versions, TLS, addresses. Handed to
/// [`Scenario::http`](crate::Scenario::http).
///
/// [`Vu::reqwest`](crate::Vu::reqwest) follows a part of it. What the command line, `LOADTEST_HTTP_*` and a profile of
/// `loadtest.toml` say stands above it; what `[http]` outside of profiles says, below.
///
/// ```
/// use loadtest::HttpOptions;
/// use loadtest::prelude::*;
///
/// # async fn flow(_: &Vu) -> Result { Ok(()) }
/// let options = HttpOptions::new()
///     .ca_file("certificates/test-ca.pem")
///     .resolve("shop.example", 443, [127, 0, 0, 1])
///     .source_ips("127.0.0.2-127.0.0.50")
///     .connect_timeout(secs(5));
/// let shop = scenario("shop", flow).http(options);
/// # let _ = shop;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a scenario has them"]
pub struct HttpOptions {
    settings: HttpSettings,
    /// The first that makes no sense.
    wrong: Option<String>,
}

impl HttpOptions {
    /// HTTP/2 where the server agrees to it in the TLS handshake, HTTP/1.1 elsewhere; certificates as the platform
    /// trusts them; connections that are kept; no limit of time to connect but that of the request.
    pub fn new() -> Self {
        Self::default()
    }

    /// HTTP/1.1 alone.
    pub fn http1(mut self) -> Self {
        self.settings.version = Some(HttpVersion::Http1);
        self
    }

    /// HTTP/2 without asking the server, also without TLS.
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.settings.version = Some(HttpVersion::Http2PriorKnowledge);
        self
    }

    /// Takes any certificate for the server's. The run has a warning of it.
    pub fn insecure(mut self) -> Self {
        self.settings.insecure = Some(true);
        self
    }

    /// Trusts the certificates in this file (PEM), in place of the platform's; more files with more calls. A relative
    /// path starts at the folder of the package.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.ca_files.push(path.into());
        self
    }

    /// Shows the server this certificate, with its chain, and proves it with this key: files in PEM, which may be the same.
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.settings.client_cert = Some(certificate.into());
        self.settings.client_key = Some(key.into());
        self
    }

    /// Whom the server's certificate has to name, and the server is told in the TLS handshake, in place of the URL's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.settings.server_name = Some(name.into());
        self
    }

    /// Connects to `address` where a URL has this host and port, as curl's `--resolve` does. `*` is any host. With more
    /// calls for one host and port the first counts.
    pub fn resolve(mut self, host: &str, port: u16, address: impl Into<IpAddr>) -> Self {
        match format!("{host}:{port}:{}", address.into()).parse::<Resolve>() {
            Ok(resolve) => self.settings.resolve.push(resolve),
            Err(why) => self.refuse("resolve", &why),
        }
        self
    }

    /// Where connections come from: `127.0.0.2`, `127.0.0.2-127.0.0.50`, `10.0.0.0/24`, or several of these between
    /// commas. Each user has one of the addresses, in turn by its number, so that limits per address do not hit all of
    /// them together. The addresses have to be this machine's.
    pub fn source_ips(mut self, addresses: &str) -> Self {
        match addresses.parse() {
            Ok(source) => self.settings.source_ips = Some(source),
            Err(why) => self.refuse("source_ips", &why),
        }
        self
    }

    /// Connects to this Unix socket, whatever host a URL has.
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.unix_socket = Some(path.into());
        self
    }

    /// Makes a new connection for each request, and closes it after the response.
    pub fn no_connection_reuse(mut self) -> Self {
        self.settings.connection_reuse = Some(false);
        self
    }

    /// How long connecting may take, looking the name up and TLS included. The timeout of a request includes it.
    pub fn connect_timeout(mut self, at_most: Duration) -> Self {
        self.settings.connect_timeout = Some(at_most);
        self
    }

    /// Lets requests go to this host, beside this machine and the host of the base URL.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.settings.allowed_hosts.push(host.into());
        self
    }

    fn refuse(&mut self, option: &str, why: &str) {
        self.wrong.get_or_insert_with(|| format!("{option}: {why}"));
    }

    /// What was said, or the first of it that makes no sense.
    pub(crate) fn settings(&self) -> Result<&HttpSettings, String> {
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(&self.settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_option_that_makes_no_sense_is_named() {
        let options = HttpOptions::new().source_ips("nowhere").resolve("a:b", 80, [127, 0, 0, 1]);
        assert!(options.settings().unwrap_err().starts_with("source_ips: `nowhere` is no address"));
        let options = HttpOptions::new().resolve("", 80, [127, 0, 0, 1]);
        assert!(options.settings().unwrap_err().starts_with("resolve: "));
    }
}
