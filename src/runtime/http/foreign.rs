//! The `reqwest` client that a scenario may ask for.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;

use super::error::RequestError;
use super::request::TIMEOUT;
use super::site::Site;
use super::transport::AGENT;

/// A client for the user with this number, from 1. It has the features that the scenario's own dependency on reqwest has, TLS
/// among them; what would need a feature of this crate's, it cannot be told.
pub(crate) fn reqwest_client(site: &Arc<Site>, user: u64, max_redirects: u32) -> reqwest::Client {
    // Where reqwest was built for TLS without a provider of its own it panics unless the process has one. An error says
    // that there is one already, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let target = site.clone();
    let redirects = Policy::custom(move |attempt| {
        if max_redirects == 0 || !target.target.may_receive(attempt.url()) {
            attempt.stop()
        } else if attempt.previous().len() > max_redirects as usize {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    });
    let client = reqwest::Client::builder()
        .no_proxy()
        .user_agent(AGENT)
        .redirect(redirects)
        .dns_resolver(Names(site.clone()))
        .timeout(TIMEOUT)
        .tcp_nodelay(true);
    let client = site.connector.apply_to(client, user);
    client.build().expect("a client without files of the user's has nothing that can fail")
}

/// Looks up the names that load may be sent to, and no others.
#[derive(Debug)]
struct Names(Arc<Site>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str();
        let found = self.0.target.addresses_of(host);
        let host = host.to_owned();
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = match found {
                None => return Err(RequestError::HostNotAllowed { host }.into()),
                Some(given) if !given.is_empty() => {
                    given.into_iter().map(|address| (address, 0).into()).collect()
                }
                Some(_) => tokio::net::lookup_host((host, 0)).await?.collect(),
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::target::Target;
    use super::super::transport::Connector;
    use super::*;
    use crate::model::http::HttpSettings;

    /// Answers each request with whom it came from, or with a redirect to what stands after `/to/`. Connections are numbered.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for number in 1.. {
                let Ok((mut stream, peer)) = listener.accept().await else { return };
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        let head = String::from_utf8_lossy(&buffer[..read]);
                        let path = head.split_whitespace().nth(1).unwrap_or_default();
                        let body = format!("{} {number}", peer.ip());
                        let answer = match path.strip_prefix("/to/") {
                            Some(to) => {
                                format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
                            }
                            None => {
                                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                            }
                        };
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn client(server: SocketAddr, settings: HttpSettings, user: u64) -> reqwest::Client {
        let target = Target::new(Some(&format!("http://{server}"))).unwrap().for_settings(&settings);
        let connector = Arc::new(Connector::new(settings, None).unwrap());
        reqwest_client(&Arc::new(Site { target, connector }), user, 2)
    }

    #[tokio::test]
    async fn names_and_redirects_lead_where_load_may_go() {
        let server = server().await;
        let port = server.port();
        let settings = HttpSettings {
            resolve: vec![format!("shop.invalid:{port}:127.0.0.1").parse().unwrap()],
            ..HttpSettings::default()
        };
        let client = client(server, settings, 1);
        let url = |host: &str, rest: &str| format!("http://{host}:{port}/{rest}");
        let to = |host: &str| url("127.0.0.1", &format!("to/{}", url(host, "")));
        let twice = url(
            "127.0.0.1",
            &format!("to/{}", to("localhost").replace("http://127.0.0.1", "http://localhost")),
        );
        for (url, want) in [
            (url("127.0.0.1", ""), 200),
            (url("shop.invalid", ""), 200),
            (to("shop.invalid"), 200),
            (to("other.invalid"), 302),
            (to("192.0.2.1"), 302),
            (twice, 200),
        ] {
            let answer = tokio::time::timeout(Duration::from_secs(30), client.get(&url).send());
            assert_eq!(answer.await.unwrap().unwrap().status().as_u16(), want, "{url}");
        }
        let refused = client.get(url("other.invalid", "")).send().await.unwrap_err();
        let mut said = refused.to_string();
        let mut cause = refused.source();
        while let Some(error) = cause {
            said += &format!(": {error}");
            cause = error.source();
        }
        assert!(said.contains("--allow-host other.invalid"), "{said}");
        let often = (0..3).fold(url("127.0.0.1", ""), |to, _| url("127.0.0.1", &format!("to/{to}")));
        assert!(client.get(often).send().await.unwrap_err().is_redirect());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn addresses_and_the_reuse_of_connections_are_the_scenarios() {
        let server = server().await;
        for (reuse, second) in [(None, "127.0.0.3 1"), (Some(false), "127.0.0.3 3")] {
            let settings = HttpSettings {
                source_ips: Some("127.0.0.2-127.0.0.3".parse().unwrap()),
                connection_reuse: reuse,
                connect_timeout: Some(Duration::from_secs(30)),
                ..HttpSettings::default()
            };
            let client = client(server, settings, 2);
            let mut last = String::new();
            for _ in 0..2 {
                last = client.get(format!("http://{server}/")).send().await.unwrap().text().await.unwrap();
            }
            assert_eq!(last, second);
        }
    }
}
