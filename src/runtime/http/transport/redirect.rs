//! Redirects: followed as browsers do, but only on the same host.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
};
use http::{Method, StatusCode};

use super::{Outgoing, Payload, Received};

/// What another port or scheme of the host is not told.
const SECRET: [http::HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// What is said of a body, and goes with it.
const OF_BODY: [http::HeaderName; 4] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING];

/// What a response asks for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime::http) enum Redirect {
    /// Nothing that could be done.
    None,
    /// Another request to the same host, which the request now is.
    Followed,
    /// A request to another host.
    Refused { host: String },
}

/// Turns the request into the one that the response asks for, when it asks for one to the same host.
pub(in crate::runtime::http) fn follow(outgoing: &mut Outgoing, received: &Received) -> Redirect {
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
    if next.host_str() != outgoing.url.host_str() {
        return Redirect::Refused { host: next.host_str().unwrap_or_default().to_owned() };
    }
    if next.origin() != outgoing.url.origin() {
        for name in SECRET {
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
    use http::{HeaderMap, HeaderValue, Version};

    use super::*;

    fn followed(method: Method, status: u16, location: &str) -> Result<Outgoing, Redirect> {
        let mut outgoing = Outgoing {
            method,
            url: "http://127.0.0.1:80/a/b?c=1".parse().unwrap(),
            headers: HeaderMap::from_iter([
                (AUTHORIZATION, HeaderValue::from_static("secret")),
                (CONTENT_TYPE, HeaderValue::from_static("text/plain")),
            ]),
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
        match follow(&mut outgoing, &received) {
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
            assert_eq!(outgoing.headers.contains_key(AUTHORIZATION), secret, "{location}");
        }
        let refused = |host: &str| Redirect::Refused { host: host.to_owned() };
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
}
