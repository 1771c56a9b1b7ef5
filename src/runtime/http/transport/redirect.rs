//! Redirects: followed as browsers do, but only on the same host, where it may be sent load, and not from https to http.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use url::Url;

use super::{Outgoing, Payload, Received};
use crate::model::redact::SECRET_HEADERS;

/// What is said of a body, and goes with it.
const OF_BODY: [http::HeaderName; 4] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING];

/// What a response asks for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime::http) enum Redirect {
    /// Nothing that could be done.
    None,
    /// Another request to the same host, which the request now is.
    Followed,
    /// A request that is not made: to where, and what is against it.
    Refused { to: String, why: &'static str },
}

/// Turns the request into the one that the response asks for, when it asks for one to the same host that `may_receive`
/// load, and is not to be sent in the clear where this one was not.
pub(in crate::runtime::http) fn follow(
    outgoing: &mut Outgoing,
    received: &Received,
    may_receive: impl Fn(&Url) -> bool,
) -> Redirect {
    let keeps_method = match received.status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => outgoing.method != Method::POST,
        StatusCode::SEE_OTHER => outgoing.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return Redirect::None,
    };
    let location = received.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let next = location.and_then(|location| outgoing.url.join(location).ok());
    let Some(next) = next.filter(|next| matches!(next.scheme(), "http" | "https")) else {
        return Redirect::None;
    };
    let host = next.host_str().unwrap_or_default();
    if next.host_str() != outgoing.url.host_str() {
        return Redirect::Refused { to: host.to_owned(), why: "another host than it was sent to" };
    }
    if outgoing.url.scheme() == "https" && next.scheme() == "http" {
        return Redirect::Refused { to: format!("http://{host}"), why: "from https to http" };
    }
    if !may_receive(&next) {
        let to = format!("{host}:{}", next.port_or_known_default().unwrap_or_default());
        return Redirect::Refused { to, why: "which may not be sent load" };
    }
    if next.origin() != outgoing.url.origin() {
        // What another port or scheme of the host is not told.
        for name in SECRET_HEADERS {
            outgoing.headers.remove(name);
        }
    }
    if !keeps_method {
        outgoing.method = Method::GET;
        outgoing.body = Payload::default();
        for name in OF_BODY {
            outgoing.headers.remove(name);
        }
    }
    outgoing.url = next;
    Redirect::Followed
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
    use http::{HeaderMap, HeaderName, HeaderValue, Version};

    use super::*;
    use crate::model::http::HttpSettings;
    use crate::runtime::http::target::Target;

    const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
    const SECRETS: [HeaderName; 4] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, API_KEY];

    fn followed(method: Method, status: u16, location: &str) -> Result<Outgoing, Redirect> {
        followed_from("http://127.0.0.1:80/a/b?c=1", method, status, location, &[])
    }

    fn followed_from(
        url: &str,
        method: Method,
        status: u16,
        location: &str,
        resolve: &[&str],
    ) -> Result<Outgoing, Redirect> {
        let resolve = resolve.iter().map(|text| text.parse().unwrap()).collect();
        let settings = HttpSettings { resolve, ..HttpSettings::default() };
        let target = Target::default().for_settings(&settings);
        let secrets = SECRETS.map(|name| (name, HeaderValue::from_static("secret")));
        let mut outgoing = Outgoing {
            method,
            url: url.parse().unwrap(),
            headers: secrets
                .into_iter()
                .chain([(CONTENT_TYPE, HeaderValue::from_static("text/plain"))])
                .collect(),
            body: Bytes::from_static(b"body").into(),
            discard: false,
        };
        let received = Received {
            status: StatusCode::from_u16(status).unwrap(),
            version: Version::HTTP_11,
            headers: HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]),
            body: Bytes::new(),
            body_bytes: 0,
        };
        match follow(&mut outgoing, &received, |url| target.may_receive(url)) {
            Redirect::Followed => Ok(outgoing),
            other => Err(other),
        }
    }

    #[test]
    fn the_method_and_body_stay_or_go_by_the_status() {
        for (status, before, after) in [
            (301, Method::POST, Method::GET),
            (302, Method::POST, Method::GET),
            (302, Method::PUT, Method::PUT),
            (303, Method::DELETE, Method::GET),
            (303, Method::HEAD, Method::HEAD),
            (307, Method::POST, Method::POST),
            (308, Method::PATCH, Method::PATCH),
        ] {
            let next = followed(before.clone(), status, "/next").unwrap();
            assert_eq!(next.method, after, "{status} {before}");
            let stays = before == after;
            assert_eq!((next.body.is_empty(), next.headers.contains_key(CONTENT_TYPE)), (!stays, stays));
            assert_eq!(next.url.as_str(), "http://127.0.0.1/next");
        }
    }

    #[test]
    fn only_the_same_host_is_followed_and_another_port_is_told_no_secret() {
        for (location, next, secret) in [
            ("c?d", "http://127.0.0.1/a/c?d", true),
            ("//127.0.0.1/x", "http://127.0.0.1/x", true),
            ("http://127.0.0.1:81/x", "http://127.0.0.1:81/x", false),
            ("https://127.0.0.1/x", "https://127.0.0.1/x", false),
        ] {
            let outgoing = followed(Method::GET, 302, location).unwrap();
            assert_eq!(outgoing.url.as_str(), next, "{location}");
            for name in SECRETS {
                assert_eq!(outgoing.headers.contains_key(&name), secret, "{location} {name}");
            }
        }
        let why = "another host than it was sent to";
        let refused = |host: &str| Redirect::Refused { to: host.to_owned(), why };
        for (status, location, why) in [
            (302, "http://127.0.0.2/x", refused("127.0.0.2")),
            (307, "http://user:pass@localhost/x?secret", refused("localhost")),
            (302, "file:///etc/passwd", Redirect::None),
            (302, "http://[", Redirect::None),
            (304, "/x", Redirect::None),
            (200, "/x", Redirect::None),
        ] {
            assert_eq!(followed(Method::GET, status, location).unwrap_err(), why, "{status} {location}");
        }
    }

    #[test]
    fn another_port_is_followed_only_where_it_may_be_sent_load_and_https_is_not_left() {
        let away = ["localhost:81:192.0.2.1", "*:82:192.0.2.1"];
        let load = "which may not be sent load";
        for (url, location, refused) in [
            ("http://localhost/", "http://localhost:81/x", Some(("localhost:81", load))),
            ("http://localhost/", "http://localhost:82/x", Some(("localhost:82", load))),
            ("http://localhost/", "http://localhost:83/x", None),
            ("http://localhost/", "https://localhost:443/x", None),
            ("https://localhost/", "/x", None),
            ("https://localhost/", "http://localhost/x", Some(("http://localhost", "from https to http"))),
        ] {
            let ended = followed_from(url, Method::GET, 302, location, &away).map(|_| ());
            let refused = refused.map(|(to, why)| Redirect::Refused { to: to.to_owned(), why });
            assert_eq!(ended.err(), refused, "{url} {location}");
        }
    }
}
