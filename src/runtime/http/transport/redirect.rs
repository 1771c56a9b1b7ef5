//! Redirects: followed as browsers do, but only on the same host.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
};
use http::{Method, StatusCode};

use super::{Outgoing, Received};

/// What another port or scheme of the host is not told.
const SECRET: [http::HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// What is said of a body, and goes with it.
const OF_BODY: [http::HeaderName; 4] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING];

/// Turns the request into the one that the response asks for. False when it asks for none, or for one to elsewhere.
pub(super) fn follow(outgoing: &mut Outgoing, received: &Received) -> bool {
    let keeps_method = match received.status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => outgoing.method != Method::POST,
        StatusCode::SEE_OTHER => outgoing.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return false,
    };
    let location = received.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(next) = location.and_then(|location| outgoing.url.join(location).ok()) else { return false };
    if !matches!(next.scheme(), "http" | "https") || next.host_str() != outgoing.url.host_str() {
        return false;
    }
    if next.origin() != outgoing.url.origin() {
        for name in SECRET {
            outgoing.headers.remove(name);
        }
    }
    if !keeps_method {
        outgoing.method = Method::GET;
        outgoing.body.clear();
        for name in OF_BODY {
            outgoing.headers.remove(name);
        }
    }
    outgoing.url = next;
    true
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, Version};

    use super::*;

    fn followed(method: Method, status: u16, location: &str) -> Option<Outgoing> {
        let mut outgoing = Outgoing {
            method,
            url: "http://127.0.0.1:80/a/b?c=1".parse().unwrap(),
            headers: HeaderMap::from_iter([
                (AUTHORIZATION, HeaderValue::from_static("secret")),
                (CONTENT_TYPE, HeaderValue::from_static("text/plain")),
            ]),
            body: Bytes::from_static(b"body"),
        };
        let received = Received {
            status: StatusCode::from_u16(status).unwrap(),
            version: Version::HTTP_11,
            headers: HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]),
            body: Bytes::new(),
        };
        follow(&mut outgoing, &received).then_some(outgoing)
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
            ("c?d", Some("http://127.0.0.1/a/c?d"), true),
            ("//127.0.0.1/x", Some("http://127.0.0.1/x"), true),
            ("http://127.0.0.1:81/x", Some("http://127.0.0.1:81/x"), false),
            ("https://127.0.0.1/x", Some("https://127.0.0.1/x"), false),
            ("http://127.0.0.2/x", None, false),
            ("http://localhost/x", None, false),
            ("file:///etc/passwd", None, false),
            ("http://[", None, false),
        ] {
            let outgoing = followed(Method::GET, 302, location);
            assert_eq!(outgoing.as_ref().map(|outgoing| outgoing.url.as_str()), next, "{location}");
            let kept = outgoing.is_some_and(|outgoing| outgoing.headers.contains_key(AUTHORIZATION));
            assert_eq!(kept, secret, "{location}");
        }
        assert!(followed(Method::GET, 304, "/x").is_none());
        assert!(followed(Method::GET, 200, "/x").is_none());
    }
}
