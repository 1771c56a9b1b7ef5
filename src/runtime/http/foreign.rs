//! The `reqwest` client that a scenario may ask for.

use super::transport::{AGENT, MOST_REDIRECTS};

/// A client for one user. It has the features that the user's own dependency on reqwest has: TLS among them.
pub(crate) fn reqwest_client() -> reqwest::Client {
    // Where reqwest was built for TLS without a provider of its own it panics unless the process has one. An error says
    // that there is one already, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let same_host = reqwest::redirect::Policy::custom(|attempt| {
        if attempt.previous().len() > MOST_REDIRECTS as usize {
            return attempt.error("too many redirects");
        }
        let first = attempt.previous().first().and_then(|url| url.host_str());
        if first == attempt.url().host_str() { attempt.follow() } else { attempt.stop() }
    });
    reqwest::Client::builder()
        .no_proxy()
        .user_agent(AGENT)
        .redirect(same_host)
        .tcp_nodelay(true)
        .build()
        .expect("a client without files or addresses of the user's has nothing that can fail")
}
