//! What the options of connections do.

use std::path::PathBuf;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;

use super::*;
use crate::model::http::HttpVersion;

/// A key and the certificate that it signs itself.
struct Made {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
}

fn made(name: &str) -> Made {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    Made { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        crate::sys::fs::write_whole(&path, text.as_bytes()).unwrap();
        path
    }
}

/// A server with this certificate that takes only clients with one of those.
async fn server(own: &Made, clients: Option<&Made>) -> SocketAddr {
    let builder = rustls::ServerConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.certificate.clone()).unwrap();
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, tls::provider()).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.key.clone()));
    let mut config = builder.with_single_cert(vec![own.certificate.clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    serve_secure(TlsAcceptor::from(Arc::new(config))).await
}

fn ended(result: Result<Received, TransportError>) -> Result<Version, &'static str> {
    result.map(|received| received.version).map_err(|error| error.class())
}

#[tokio::test]
async fn the_version_is_the_one_that_is_asked_for() {
    let own = made("127.0.0.1");
    let outgoing = request_to(Method::GET, &format!("https://{}/", server(&own, None).await));
    for (version, wanted) in [
        (HttpVersion::Negotiated, Version::HTTP_2),
        (HttpVersion::Http1, Version::HTTP_11),
        (HttpVersion::Http2PriorKnowledge, Version::HTTP_2),
    ] {
        let settings =
            HttpSettings { version: Some(version), insecure: Some(true), ..HttpSettings::default() };
        assert_eq!(ended(connecting(settings).send(&outgoing).await), Ok(wanted), "{version:?}");
    }
}

#[tokio::test]
async fn certificates_are_trusted_as_the_settings_say() {
    let (own, other) = (made("127.0.0.1"), made("127.0.0.1"));
    let outgoing = request_to(Method::GET, &format!("https://{}/", server(&own, None).await));
    let files = Files::new();
    let file = |name: &str, made: &Made| files.put(name, &pem("CERTIFICATE", &made.certificate));
    let trusting = |ca_files: Vec<PathBuf>| HttpSettings { ca_files, ..HttpSettings::default() };
    let (right, wrong) = (file("right.pem", &own), file("wrong.pem", &other));
    for (settings, wanted) in [
        (trusting(vec![]), Err("tls")),
        (trusting(vec![wrong.clone()]), Err("tls")),
        (trusting(vec![wrong, right]), Ok(Version::HTTP_2)),
        (HttpSettings { insecure: Some(true), ..HttpSettings::default() }, Ok(Version::HTTP_2)),
    ] {
        assert_eq!(ended(connecting(settings.clone()).send(&outgoing).await), wanted, "{settings:?}");
    }
}

#[tokio::test]
async fn the_server_is_named_as_it_is_asked_for() {
    let own = made("shop.example");
    let address = server(&own, None).await;
    let files = Files::new();
    let ca_files = vec![files.put("ca.pem", &pem("CERTIFICATE", &own.certificate))];
    let outgoing = request_to(Method::GET, &format!("https://{address}/"));
    for (name, wanted) in
        [(None, Err("tls")), (Some("other.example"), Err("tls")), (Some("shop.example"), Ok(Version::HTTP_2))]
    {
        let server_name = name.map(str::to_owned);
        let settings = HttpSettings { ca_files: ca_files.clone(), server_name, ..HttpSettings::default() };
        assert_eq!(ended(connecting(settings).send(&outgoing).await), wanted, "{name:?}");
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let (own, client) = (made("127.0.0.1"), made("client"));
    let outgoing = request_to(Method::GET, &format!("https://{}/", server(&own, Some(&client)).await));
    let files = Files::new();
    let (certificate, key) = (pem("CERTIFICATE", &client.certificate), pem("PRIVATE KEY", &client.key));
    let (one, other) = (files.put("client.pem", &certificate), files.put("client.key", &key));
    let both = files.put("both.pem", &(certificate + &key));
    for (client_cert, client_key, wanted) in [
        (None, None, Err("tls")),
        (Some(one), Some(other), Ok(Version::HTTP_11)),
        (Some(both), None, Ok(Version::HTTP_11)),
    ] {
        let settings = HttpSettings {
            insecure: Some(true),
            version: Some(HttpVersion::Http1),
            client_cert,
            client_key,
            ..HttpSettings::default()
        };
        assert_eq!(ended(connecting(settings.clone()).send(&outgoing).await), wanted, "{settings:?}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_setting() {
    let files = Files::new();
    let (one, other) = (made("one"), made("other"));
    let certificate = files.put("one.pem", &pem("CERTIFICATE", &one.certificate));
    let key = files.put("other.key", &pem("PRIVATE KEY", &other.key));
    let junk = files.put("junk.pem", "nothing\n");
    let broken = files.put("broken.pem", &pem("CERTIFICATE", b"not DER"));
    let base = HttpSettings::default;
    for (settings, words) in [
        (HttpSettings { ca_files: vec!["/nowhere.pem".into()], ..base() }, ["ca-files", "/nowhere.pem"]),
        (HttpSettings { ca_files: vec![junk.clone()], ..base() }, ["ca-files", "no certificate in PEM"]),
        (HttpSettings { ca_files: vec![broken], ..base() }, ["ca-files", "broken.pem"]),
        (HttpSettings { client_cert: Some(certificate.clone()), ..base() }, ["client-key", "no key in PEM"]),
        (
            HttpSettings { client_cert: Some(certificate), client_key: Some(key), ..base() },
            ["client-cert", "one.pem"],
        ),
    ] {
        let error = TlsConfigs::default().of(&settings).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn one_set_of_options_has_one_configuration() {
    let mut configs = TlsConfigs::default();
    let insecure = HttpSettings { insecure: Some(true), ..HttpSettings::default() };
    let also = HttpSettings { connection_reuse: Some(false), ..insecure.clone() };
    let other = HttpSettings { version: Some(HttpVersion::Http1), ..insecure.clone() };
    let [one, same, different] = [&insecure, &also, &other].map(|it| configs.of(it).unwrap().unwrap());
    assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &different));
    assert!(configs.of(&HttpSettings::default()).unwrap().is_none(), "the platform's is the process's own");
}

#[tokio::test]
async fn a_name_that_has_an_address_given_is_not_looked_up() {
    let server = Server::start(ok).await;
    let port = server.address.port();
    let settings = HttpSettings {
        resolve: vec![format!("shop.invalid:{port}:127.0.0.1").parse().unwrap()],
        ..HttpSettings::default()
    };
    let outgoing = request_to(Method::GET, &format!("http://shop.invalid:{port}/"));
    let (ended, times, _) = connecting(settings).timed(&outgoing).await;
    assert_eq!(ended.unwrap().status, 200);
    assert_eq!(times.get(HttpPhase::Dns), Duration::ZERO);
    assert!(server.seen()[0].head.contains(&format!("host: shop.invalid:{port}\r\n")));
    let error = Transport::default().send(&outgoing).await.unwrap_err();
    assert_eq!(error.class(), "dns", "{error:?}");
}

/// Answers each request with the address that it came from.
async fn mirror() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, from)) = listener.accept().await {
            let from = from.ip().to_string();
            tokio::spawn(async move {
                while read_request(&mut stream).await.is_some() {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{from}", from.len());
                    stream.write_all(head.as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

// Every address that begins with 127 is this machine's on Linux alone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn users_take_turns_over_the_source_addresses() {
    let outgoing = request_to(Method::GET, &format!("http://{}/", mirror().await));
    let settings = HttpSettings { source_ips: "127.0.0.2-127.0.0.4".parse().ok(), ..HttpSettings::default() };
    let connector = Arc::new(Connector::new(settings, None).unwrap());
    let mut seen = Vec::new();
    for user in 1..=4 {
        let transport = Transport::new(connector.clone(), user);
        for _ in 0..2 {
            seen.push(String::from_utf8(transport.send(&outgoing).await.unwrap().body.into()).unwrap());
        }
    }
    let wanted = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2"].map(|address| [address; 2]).concat();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn an_address_that_is_not_this_machines_is_the_generators_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outgoing = request_to(Method::GET, &format!("http://{}/", listener.local_addr().unwrap()));
    // The first is for documentation alone, the second of another family.
    for address in ["192.0.2.1", "::1"] {
        let settings = HttpSettings { source_ips: address.parse().ok(), ..HttpSettings::default() };
        let error = connecting(settings).send(&outgoing).await.unwrap_err();
        assert_eq!(error.class(), "generator_address", "{error:?}");
        assert!(error.to_string().contains(address), "{error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_takes_the_place_of_every_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream, false));
        }
    });
    let settings = HttpSettings { unix_socket: Some(path.clone()), ..HttpSettings::default() };
    let transport = connecting(settings);
    for url in ["http://shop.invalid/one", "http://127.0.0.1:1/two"] {
        let (ended, times, _) = transport.timed(&request_to(Method::GET, url)).await;
        assert!(url.ends_with(std::str::from_utf8(&ended.unwrap().body).unwrap()));
        assert!(!times.get(HttpPhase::Connecting).is_zero() && times.get(HttpPhase::Dns).is_zero());
    }
    drop(folder);
    let settings = HttpSettings { unix_socket: Some(path), ..HttpSettings::default() };
    let error = connecting(settings).send(&request_to(Method::GET, "http://x/")).await.unwrap_err();
    assert!(error.class().starts_with("connect") && error.to_string().contains("socket"), "{error:?}");
}

#[tokio::test]
async fn without_reuse_each_request_has_a_connection_of_its_own() {
    let server = Server::start(ok).await;
    let transport = connecting(HttpSettings { connection_reuse: Some(false), ..HttpSettings::default() });
    for _ in 0..3 {
        let (ended, times, _) = transport.timed(&server.request(Method::GET, "/")).await;
        assert_eq!(ended.unwrap().status, 200);
        assert!(!times.get(HttpPhase::Connecting).is_zero());
    }
    assert_eq!(server.connections(), [0, 1, 2]);
    assert!(server.seen()[0].head.contains("connection: close\r\n"), "{}", server.seen()[0].head);
}

#[tokio::test]
async fn connecting_takes_as_long_as_it_may_and_no_longer() {
    // Nobody answers the greeting of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outgoing = request_to(Method::GET, &format!("https://{}/", listener.local_addr().unwrap()));
    let at_most = Duration::from_millis(50);
    let settings =
        HttpSettings { connect_timeout: Some(at_most), insecure: Some(true), ..HttpSettings::default() };
    let (ended, times, _) = connecting(settings).timed(&outgoing).await;
    let error = ended.unwrap_err();
    assert_eq!((error.class(), error.to_string().as_str()), ("connect_timeout", "no connection within 50ms"));
    let all: Duration = HttpPhase::ALL.iter().map(|phase| times.get(*phase)).sum();
    assert!(all >= at_most, "{times:?}");
}

#[tokio::test]
async fn a_server_that_is_down_is_told_whatever_its_other_addresses_lack() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outgoing = request_to(Method::GET, &format!("http://down.invalid:{}/", closed.port()));
    // From a loopback address there is no way to the last one, and none to the one between.
    for addresses in ["127.0.0.1,::1", "::1,127.0.0.1", "127.0.0.1,192.0.2.1", "127.0.0.1,::1,192.0.2.1"] {
        let settings = HttpSettings {
            source_ips: "127.0.0.1".parse().ok(),
            resolve: vec![format!("down.invalid:{}:{addresses}", closed.port()).parse().unwrap()],
            ..HttpSettings::default()
        };
        let error = connecting(settings).send(&outgoing).await.unwrap_err();
        assert_eq!(error.class(), "connect_refused", "{addresses}: {error:?}");
    }
}
