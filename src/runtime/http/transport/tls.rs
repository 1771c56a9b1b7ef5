//! Configurations of TLS: made once for all users, because one takes milliseconds and 100 KiB.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::model::http::{HttpSettings, HttpVersion};
use crate::sys::{env, file};

/// The configurations of a run's scenarios beside the usual ones: one for each set of options.
#[derive(Debug, Default)]
pub(in crate::runtime::http) struct TlsConfigs {
    made: Vec<(Options, Arc<ClientConfig>)>,
}

/// What a configuration depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    version: HttpVersion,
    is_insecure: bool,
    ca_files: Vec<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

impl Options {
    fn of(settings: &HttpSettings) -> Self {
        Self {
            version: settings.version.unwrap_or_default(),
            is_insecure: settings.insecure == Some(true),
            ca_files: settings.ca_files.clone(),
            client_cert: settings.client_cert.clone(),
            client_key: settings.client_key.clone(),
        }
    }

    fn is_usual(&self) -> bool {
        !self.is_insecure && self.ca_files.is_empty() && self.client_cert.is_none()
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.is_insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else if self.ca_files.is_empty() {
            builder.with_platform_verifier().map_err(|error| untrusting(&error, env::var))?
        } else {
            builder.with_root_certificates(roots(&self.ca_files)?)
        };
        let config = match &self.client_cert {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let chain = certificates("client-cert", path)?;
                let key_path = self.client_key.as_ref().unwrap_or(path);
                let key = PrivateKeyDer::from_pem_slice(&read("client-key", key_path)?)
                    .map_err(|error| format!("client-key: {}: no key in PEM: {error}", key_path.display()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("client-cert: {}: {error}", path.display()))?
            }
        };
        Ok(finish(config, self.version))
    }
}

impl TlsConfigs {
    /// The configuration for these settings; `None`: what the platform trusts will do, and is looked at when it is needed.
    pub(in crate::runtime::http) fn of(
        &mut self,
        settings: &HttpSettings,
    ) -> Result<Option<Arc<ClientConfig>>, String> {
        let options = Options::of(settings);
        if options.is_usual() {
            return Ok(None);
        }
        if let Some((_, config)) = self.made.iter().find(|(made, _)| *made == options) {
            return Ok(Some(config.clone()));
        }
        let config = Arc::new(options.config()?);
        self.made.push((options, config.clone()));
        Ok(Some(config))
    }
}

/// The configuration that trusts what the platform trusts; made when it is first asked for.
pub(in crate::runtime::http) fn usual(version: HttpVersion) -> Result<&'static Arc<ClientConfig>, String> {
    static CONFIGS: [OnceLock<Result<Arc<ClientConfig>, String>>; 3] = [const { OnceLock::new() }; 3];
    let options = Options::of(&HttpSettings { version: Some(version), ..HttpSettings::default() });
    let made = CONFIGS[version as usize].get_or_init(|| options.config().map(Arc::new));
    made.as_ref().map_err(Clone::clone)
}

/// Why there is nothing to trust. What variables name, OpenSSL's, stands in for the places that the system has.
fn untrusting(error: &rustls::Error, variable: impl Fn(&str) -> Option<String>) -> String {
    let file = variable("SSL_CERT_FILE").map(|path| match certificates("SSL_CERT_FILE", Path::new(&path)) {
        Ok(_) => format!("SSL_CERT_FILE: {path}: no certificate there can be used"),
        Err(why) => why,
    });
    let folder =
        variable("SSL_CERT_DIR").map(|path| format!("SSL_CERT_DIR: {path}: no certificate in PEM there"));
    let mut why: Vec<String> = file.into_iter().chain(folder).collect();
    if why.is_empty() {
        why.push(format!("{error}; install them (the package ca-certificates)"));
    }
    format!(
        "this system has no certificates to trust: {}; other ones can be named by ca-files (--ca-file)",
        why.join(", ")
    )
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// With what is offered in the handshake, the preferred first. No session is resumed: users that share a configuration
/// would resume each other's, and connecting would look cheaper than it is for as many clients.
pub(super) fn finish(mut config: ClientConfig, version: HttpVersion) -> ClientConfig {
    let (first, second): (&[u8], &[u8]) = (b"h2", b"http/1.1");
    config.alpn_protocols = match version {
        HttpVersion::Negotiated => vec![first.to_vec(), second.to_vec()],
        HttpVersion::Http1 => vec![second.to_vec()],
        HttpVersion::Http2PriorKnowledge => vec![first.to_vec()],
    };
    config.resumption = Resumption::disabled();
    config
}

fn roots(files: &[PathBuf]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for path in files {
        for certificate in certificates("ca-files", path)? {
            roots.add(certificate).map_err(|error| format!("ca-files: {}: {error}", path.display()))?;
        }
    }
    Ok(roots)
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(setting, path)?).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{setting}: {}: no certificate in PEM", path.display())),
        Err(error) => Err(format!("{setting}: {}: {error}", path.display())),
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    file::read(path).map_err(|error| format!("{setting}: cannot read {}: {error}", path.display()))
}

/// Takes any certificate for the server's.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_trusted_is_told_by_the_name_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing of the kind").unwrap();
        let whole = folder.path().join("whole.pem");
        std::fs::write(&whole, "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n").unwrap();
        let absent = folder.path().join("absent.pem");
        for (file, dir, words) in [
            (Some(&absent), None, vec!["SSL_CERT_FILE: cannot read", "absent.pem", "--ca-file"]),
            (Some(&empty), Some("/none"), vec!["empty.pem: no certificate in PEM", "SSL_CERT_DIR: /none"]),
            (Some(&whole), None, vec!["whole.pem: no certificate there can be used"]),
            (None, None, vec!["none there", "ca-certificates"]),
        ] {
            let said = untrusting(&rustls::Error::General("none there".into()), |name| match name {
                "SSL_CERT_FILE" => file.map(|path| path.display().to_string()),
                _ => dir.map(str::to_owned),
            });
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
