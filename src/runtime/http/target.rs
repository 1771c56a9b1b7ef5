//! Where a request goes: templates, the base URL, and the hosts that load may be sent to.

use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::error::RequestError;
use crate::model::http::{HttpSettings, Resolve};
use crate::model::redact;

/// What stays as it is in a path segment or a query: RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The system under test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    base: Option<Url>,
    allowed: Vec<String>,
    resolve: Vec<Resolve>,
    /// Everything goes to a socket of this machine.
    is_local: bool,
    /// The base URL's host may be sent load, and so may all that is below it.
    base_may_receive: bool,
}

impl Target {
    /// A base URL as configured; its path is what relative templates are appended to.
    pub(crate) fn new(base_url: Option<&str>) -> Result<Self, String> {
        let base = base_url
            .map(|text| match Url::parse(text) {
                Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                    url.set_fragment(None);
                    Ok(url)
                }
                Ok(url) => Err(format!(
                    "base-url `{}` has the scheme `{}`; http and https are supported",
                    redact::text(text),
                    url.scheme()
                )),
                Err(why) => Err(format!("base-url `{}` is no URL: {why}", redact::text(text))),
            })
            .transpose()?;
        Ok(Self { base, ..Self::default() }.judged())
    }

    /// With what these settings say of where load may go, and where it does.
    pub(crate) fn for_settings(self, settings: &HttpSettings) -> Self {
        Self {
            allowed: settings.allowed_hosts.iter().map(|host| bare(host).to_lowercase()).collect(),
            resolve: settings.resolve.clone(),
            is_local: settings.unix_socket.is_some(),
            ..self
        }
        .judged()
    }

    /// Judges the base URL once, and not for every request.
    fn judged(self) -> Self {
        Self { base_may_receive: self.base.as_ref().is_some_and(|base| self.may_receive(base)), ..self }
    }

    /// Whether what is below the base URL is asked for over TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.scheme() == "https")
    }

    /// The URL of `template` with its placeholders filled in from `path` and with `query` appended.
    pub(crate) fn url(
        &self,
        template: &str,
        path: &[(String, String)],
        query: &[(String, String)],
    ) -> Result<Url, RequestError> {
        let mut filled = fill(template, path)?;
        if !query.is_empty() {
            let pairs: Vec<String> =
                query.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
            filled += if filled.contains('?') { "&" } else { "?" };
            filled += &pairs.join("&");
        }
        let (url, may_receive) = if filled.starts_with("http://") || filled.starts_with("https://") {
            let url = Url::parse(&filled).map_err(|why| RequestError::Url {
                url: redact::text(&filled).into_owned(),
                why: why.to_string(),
            })?;
            let may_receive = self.may_receive(&url);
            (url, may_receive)
        } else {
            let base = self
                .base
                .as_ref()
                .ok_or_else(|| RequestError::NoBaseUrl { template: template.to_owned() })?;
            (below(base, &filled), self.base_may_receive)
        };
        if may_receive {
            Ok(url)
        } else {
            Err(RequestError::HostNotAllowed { host: url.host_str().unwrap_or_default().to_owned() })
        }
    }

    /// Load goes to loopback addresses, to the base URL's host, and to those that are allowed by name; nowhere else. A
    /// name counts for the addresses that are given for it, and `localhost` for nothing else.
    pub(crate) fn may_receive(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let port = url.port_or_known_default().unwrap_or(0);
        self.may_receive_at(host, self.resolve.iter().find(|given| given.fits(host, port)))
    }

    /// The addresses that are given for a name, whatever the port; none: it has to be looked up; `None`: load may not go
    /// there.
    pub(super) fn addresses_of(&self, host: &str) -> Option<Vec<IpAddr>> {
        let given = self.resolve.iter().find(|given| given.is_for(host));
        self.may_receive_at(host, given)
            .then(|| given.map_or_else(Vec::new, |given| given.addresses().to_vec()))
    }

    fn may_receive_at(&self, host: &str, given: Option<&Resolve>) -> bool {
        let is_here = match given {
            Some(given) => given.addresses().iter().all(IpAddr::is_loopback),
            None => is_loopback(host),
        };
        let is_allowed = |host: &str| self.allowed.iter().any(|allowed| allowed == bare(host));
        let is_base = || self.base.as_ref().is_some_and(|base| base.host_str() == Some(host));
        self.is_local || is_here || is_allowed(host) || is_base() && !is_loopback(host)
    }
}

fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// Whether a host is this machine by its very name.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || bare(host).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The URL of a path and query below a base. The base is not parsed again: this is done for every request.
fn below(base: &Url, target: &str) -> Url {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let path = path.trim_start_matches('/');
    let mut url = base.clone();
    match base.path().trim_end_matches('/') {
        "" => url.set_path(path),
        prefix => url.set_path(&format!("{prefix}/{path}")),
    }
    url.set_query(query);
    url
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The template without its query: what a request is measured under.
pub(crate) fn name_of(template: &str) -> &str {
    template.split(['?', '#']).next().unwrap_or_default()
}

fn fill(template: &str, path: &[(String, String)]) -> Result<String, RequestError> {
    let mut filled = String::with_capacity(template.len() + 16);
    let mut rest = template;
    let mut used = 0;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { break };
        let key = &rest[open + 1..open + close];
        let (_, value) = path.iter().find(|(known, _)| known == key).ok_or_else(|| {
            RequestError::MissingPathParameter { template: template.to_owned(), key: key.to_owned() }
        })?;
        used += 1;
        filled += &rest[..open];
        filled += &encode(value);
        rest = &rest[open + close + 1..];
    }
    filled += rest;
    if used < path.len()
        && let Some((key, _)) = path.iter().find(|(key, _)| !template.contains(&format!("{{{key}}}")))
    {
        return Err(RequestError::UnknownPathParameter { template: template.to_owned(), key: key.clone() });
    }
    Ok(filled)
}

/// A URL that may be stored and shown: without user information and fragment, the query's values masked.
pub(crate) fn masked(url: &Url) -> String {
    let mut masked = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Both can only fail for URLs without a host, which have no user information.
        let _ = masked.set_username("REDACTED");
        let _ = masked.set_password(None);
    }
    masked.set_query(url.query().map(redact::query).as_deref());
    masked.set_fragment(None);
    masked.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn templates_are_filled_in_and_appended_to_the_base_urls_path() {
        let target = Target::new(Some("http://127.0.0.1:80/api/")).unwrap();
        for (template, path, query, want) in [
            ("/users/{id}", vec![("id", "a/b ü")], vec![], "http://127.0.0.1/api/users/a%2Fb%20%C3%BC"),
            ("users", vec![], vec![("q", "1&2"), ("r", "")], "http://127.0.0.1/api/users?q=1%262&r="),
            ("/x?a=1", vec![], vec![("b", "2")], "http://127.0.0.1/api/x?a=1&b=2"),
            ("/x#fragment?no", vec![], vec![], "http://127.0.0.1/api/x"),
            ("//example.com/ü x", vec![], vec![], "http://127.0.0.1/api/example.com/%C3%BC%20x"),
            ("/\t/\\example.com", vec![], vec![], "http://127.0.0.1/api///example.com"),
            ("http://[::1]:81/y", vec![], vec![], "http://[::1]:81/y"),
        ] {
            assert_eq!(target.url(template, &pairs(&path), &pairs(&query)).unwrap().as_str(), want);
        }
    }

    #[test]
    fn a_base_url_of_a_host_alone_or_with_odd_slashes_is_appended_to() {
        for (base, template, want) in [
            ("http://127.0.0.1:81", "/a/../b", "http://127.0.0.1:81/b"),
            ("http://127.0.0.1:81/?old#old", "a?b", "http://127.0.0.1:81/a?b"),
            ("http://127.0.0.1:81", "", "http://127.0.0.1:81/"),
            ("http://127.0.0.1:81", "//x", "http://127.0.0.1:81/x"),
            ("http://127.0.0.1:81//x/", "/y", "http://127.0.0.1:81//x/y"),
        ] {
            assert_eq!(Target::new(Some(base)).unwrap().url(template, &[], &[]).unwrap().as_str(), want);
        }
    }

    #[test]
    fn what_cannot_be_a_url_says_why() {
        let target = Target::new(Some("http://127.0.0.1:1")).unwrap();
        for (template, path, words) in [
            ("/users/{id}", vec![], ".path(\"id\", …)"),
            ("/users", vec![("id", "1")], "no placeholder {id}"),
            ("http://example.com/", vec![], "example.com"),
        ] {
            let error = target.url(template, &pairs(&path), &[]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = Target::default().url("/users", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("base-url"), "{error}");
        assert!(Target::new(Some("ftp://x")).unwrap_err().contains("http and https"));
        assert!(Target::new(Some("nonsense")).unwrap_err().contains("nonsense"));
    }

    #[test]
    fn load_goes_where_it_may_and_addresses_that_are_given_count_for_a_name() {
        let settings = |resolve: &[&str], unix_socket: Option<&str>| HttpSettings {
            allowed_hosts: vec!["Api.example".into(), "[2001:db8::1]".into()],
            resolve: resolve.iter().map(|text| text.parse().unwrap()).collect(),
            unix_socket: unix_socket.map(Into::into),
            ..HttpSettings::default()
        };
        let here = ["other.example:80:127.0.0.1,::1"];
        let away = ["localhost:80:192.0.2.1", "shop.example:80:192.0.2.1", "*:81:127.0.0.1,192.0.2.1"];
        for (url, resolve, socket, may) in [
            ("http://shop.example/", &[][..], None, true),
            ("http://api.example:8080/", &[], None, true),
            ("http://[2001:db8::1]/", &[], None, true),
            ("http://[::1]/", &[], None, true),
            ("http://other.example/", &[], None, false),
            ("http://api.example.org/", &[], None, false),
            ("http://other.example/", &here, None, true),
            ("http://other.example:81/", &here, None, false),
            ("http://localhost/", &away, None, false),
            ("http://localhost:82/", &away, None, true),
            ("http://127.0.0.1:81/", &away, None, false),
            ("http://shop.example/", &away, None, true),
            ("http://other.example/", &[], Some("/socket"), true),
        ] {
            let target = Target::new(Some("http://shop.example")).unwrap();
            let target = target.for_settings(&settings(resolve, socket));
            assert_eq!(target.url(url, &[], &[]).is_ok(), may, "{url}");
        }
    }

    #[test]
    fn a_shown_url_has_no_secrets() {
        for (url, want) in [
            (
                "http://me:secret@127.0.0.1/a?token=secret&n=1&m=",
                "http://REDACTED@127.0.0.1/a?token=REDACTED&n=REDACTED&m=",
            ),
            ("http://127.0.0.1/a?eyJhbGciOi", "http://127.0.0.1/a?REDACTED"),
            ("http://127.0.0.1/a#access_token=secret", "http://127.0.0.1/a"),
        ] {
            assert_eq!(masked(&Url::parse(url).unwrap()), want);
        }
        assert_eq!(name_of("/a?token={t}"), "/a");
    }
}
