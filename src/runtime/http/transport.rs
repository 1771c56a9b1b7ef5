//! The transport beneath: reqwest on rustls, one client for each user.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt as _;

/// Redirects that are followed, at most.
const MOST_REDIRECTS: usize = 10;

/// One TLS configuration for all clients: made anew for each, a client costs milliseconds and 100 KiB.
fn tls() -> Result<&'static rustls::ClientConfig, &'static str> {
    static CONFIG: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let made = CONFIG.get_or_init(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth())
    });
    made.as_ref().map_err(String::as_str)
}

fn builder() -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .user_agent(concat!("cargo-loadtest/", env!("CARGO_PKG_VERSION")));
    match tls() {
        Ok(config) => builder.tls_backend_preconfigured(config.clone()),
        // Without trust roots plain HTTP still works; an https URL then fails by itself, with its own message.
        Err(_) => builder,
    }
}

/// A client for one user: its connections are shared with nobody, the environment's proxies are not used, and
/// redirects are followed only on the same host.
pub(crate) fn client() -> reqwest::Client {
    let same_host = reqwest::redirect::Policy::custom(|attempt| {
        if attempt.previous().len() > MOST_REDIRECTS {
            return attempt.error("too many redirects");
        }
        let first = attempt.previous().first().and_then(|url| url.host_str());
        if first == attempt.url().host_str() { attempt.follow() } else { attempt.stop() }
    });
    builder()
        .redirect(same_host)
        .pool_idle_timeout(None::<Duration>)
        .tcp_nodelay(true)
        .build()
        .expect("a client without files or addresses of the user's has nothing that can fail")
}

/// A client for telemetry: bounded, without redirects.
pub(crate) fn export_client() -> reqwest::Client {
    builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(10))
        .build()
        .expect("a client without files or addresses of the user's has nothing that can fail")
}
