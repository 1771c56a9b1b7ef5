//! Taking credentials and query values out of URLs, wherever in a text they stand. When in doubt, something goes.

use std::borrow::Cow;

/// What stands where a secret stood.
pub(crate) const REDACTED: &str = "REDACTED";

/// Headers whose values are always secret.
pub(crate) const SECRET_HEADERS: [&str; 5] =
    ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];

/// Redacts the URLs, and the paths with a query, in a text.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains("://") && !text.contains('?') {
        return Cow::Borrowed(text);
    }
    let mut redacted = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || "\"'<>`".contains(c)) {
        if word.contains("://") || (word.contains('/') && word.contains('?')) {
            url(word, &mut redacted);
        } else {
            redacted.push_str(word);
        }
    }
    Cow::Owned(redacted)
}

/// Appends `url` without its userinfo and the values of its query. A fragment can carry tokens: it goes.
fn url(url: &str, into: &mut String) {
    let end = url.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c)).unwrap_or(url.len());
    let (url, after) = url.split_at(end);
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let (address, values) = url.split_once('?').map_or((url, None), |(url, values)| (url, Some(values)));
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let slash = rest.find('/').unwrap_or(rest.len());
            // A password may hold unescaped slashes; the last `@` then still ends the userinfo.
            let authority_end =
                if rest[..slash].contains('@') || !rest.contains('@') { slash } else { rest.len() };
            let (authority, path) = rest.split_at(authority_end);
            into.push_str(scheme);
            into.push_str("://");
            match authority.rsplit_once('@') {
                Some((_, host)) => {
                    into.push_str(REDACTED);
                    into.push('@');
                    into.push_str(host);
                }
                None => into.push_str(authority),
            }
            into.push_str(path);
        }
        None => into.push_str(address),
    }
    if let Some(values) = values {
        into.push('?');
        into.push_str(&query(values));
    }
    if fragment.is_some() {
        into.push('#');
        into.push_str(REDACTED);
    }
    into.push_str(after);
}

/// The URL, or path, without user information: what a row or a span may be named by.
pub(crate) fn without_user(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://").filter(|(_, rest)| rest.contains('@')) else {
        return Cow::Borrowed(url);
    };
    // Further slashes before the host mean nothing in a URL of http.
    let rest = rest.trim_start_matches(['/', '\\']);
    let (authority, path) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let Some((_, host)) = authority.rsplit_once('@') else { return Cow::Borrowed(url) };
    Cow::Owned(format!("{scheme}://{host}{path}"))
}

/// A query string with its names, without its values.
pub(crate) fn query(query: &str) -> String {
    let mut redacted = String::with_capacity(query.len());
    for (index, pair) in query.split('&').enumerate() {
        if index > 0 {
            redacted.push('&');
        }
        match pair.split_once('=') {
            Some((name, value)) => {
                redacted.push_str(name);
                redacted.push('=');
                redacted.push_str(if value.is_empty() { "" } else { REDACTED });
            }
            // A query without names, such as `?eyJhbGciOi…`, is a value.
            None if !pair.is_empty() => redacted.push_str(REDACTED),
            None => {}
        }
    }
    redacted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_keep_host_path_and_names_and_lose_userinfo_values_and_fragments() {
        for (given, want) in [
            ("http://a/b", "http://a/b"),
            ("http://u:p@a:80/b?x=1&y=&z=3#t", "http://REDACTED@a:80/b?x=REDACTED&y=&z=REDACTED#REDACTED"),
            ("postgres://u:p/q@r@host/db", "postgres://REDACTED@host/db"),
            ("http://a?eyJhbGciOi", "http://a?REDACTED"),
            ("GET /b?x=1", "GET /b?x=REDACTED"),
            (
                "see \"https://a/?k=v\", then <http://t@b>",
                "see \"https://a/?k=REDACTED\", then <http://REDACTED@b>",
            ),
            ("is it? yes", "is it? yes"),
            ("plain", "plain"),
        ] {
            assert_eq!(text(given), want);
        }
    }

    #[test]
    fn a_name_keeps_all_of_a_url_but_its_userinfo() {
        for (given, want) in [
            ("http://ada:pw@127.0.0.1/x", "http://127.0.0.1/x"),
            ("https://a@b:p@w@[::1]:81/{id}/@me", "https://[::1]:81/{id}/@me"),
            ("http:///ada:pw@127.0.0.1/x", "http://127.0.0.1/x"),
            ("http://{user}:{password}@127.0.0.1", "http://127.0.0.1"),
            ("http://127.0.0.1/users/@me", "http://127.0.0.1/users/@me"),
            ("/users/@me", "/users/@me"),
        ] {
            assert_eq!(without_user(given), want);
        }
    }

    proptest! {
        #[test]
        fn no_value_of_a_query_gets_through(value in "[a-z]{12}", path in "[a-zé/]{0,9}") {
            let redacted = text(&format!("GET /{path}?k={value}&{value}")).into_owned();
            prop_assert!(!redacted.contains(&value));
        }
    }
}
