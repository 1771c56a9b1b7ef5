//! The one TLS configuration of the process: made anew for each user it would cost milliseconds and 100 KiB.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::BuilderVerifierExt;

/// What is offered in the handshake, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The configuration that trusts what the platform trusts.
pub(super) fn shared() -> Result<&'static Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let made = CONFIG.get_or_init(|| {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(|error| error.to_string())?
            .with_no_client_auth();
        Ok(with_protocols(config))
    });
    made.as_ref().map_err(Clone::clone)
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(super) fn with_protocols(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
    Arc::new(config)
}
