//! One user's cookies, kept and sent by the rules of RFC 6265. The time, in seconds since 1970, comes from the caller.
//!
//! Written out here and not taken from a crate, because those bring a second library for dates and a map of maps for
//! each user, where most users have no cookie or one.

use std::net::IpAddr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use url::Url;

/// The most cookies of one user; the oldest makes room. Browsers keep 180 for a domain.
const MOST_COOKIES: usize = 180;

/// The longest cookie, name and value together, as in browsers; a longer one is not kept.
const LONGEST_COOKIE: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// Only for the host that set it, not for those below it.
    host_only: bool,
    path: String,
    secure: bool,
    expires: Option<u64>,
}

/// In the order in which the cookies were first set.
#[derive(Debug, Default)]
pub(crate) struct Jar {
    cookies: Vec<Cookie>,
}

impl Jar {
    pub(super) fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Keeps what a `set-cookie` header of a response from `url` says (RFC 6265, 5.2 and 5.3).
    pub(super) fn store(&mut self, url: &Url, header: &str, now: u64) {
        if let Some(cookie) = read(url, header, now) {
            self.keep(cookie, now);
        }
    }

    /// Keeps a cookie for this host alone, all paths, until the jar is cleared.
    pub(super) fn set(&mut self, url: &Url, name: &str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        let (domain, path) = (host_of(url).to_owned(), "/".to_owned());
        self.keep(Cookie { name, value, domain, host_only: true, path, secure: false, expires: None }, 0);
    }

    fn keep(&mut self, cookie: Cookie, now: u64) {
        let same = |other: &Cookie| {
            (&other.name, &other.domain, &other.path) == (&cookie.name, &cookie.domain, &cookie.path)
        };
        let known = self.cookies.iter().position(same);
        if cookie.expires.is_some_and(|expires| expires <= now) {
            known.map(|at| self.cookies.remove(at));
            return;
        }
        if let Some(at) = known {
            self.cookies[at] = cookie;
            return;
        }
        if self.cookies.len() == MOST_COOKIES {
            self.cookies.remove(0);
        }
        self.cookies.push(cookie);
    }

    /// The names and values that a request to `url` carries, in the order in which it does (RFC 6265, 5.4).
    pub(super) fn sent_to(&self, url: &Url, now: u64) -> Vec<(&str, &str)> {
        let mut sent: Vec<_> = self.alive(now).filter(|cookie| cookie.is_for(url)).collect();
        // Stable: among those with paths of one length, the one that was set first stands first.
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        sent.iter().map(|cookie| (cookie.name.as_str(), cookie.value.as_str())).collect()
    }

    /// The value of a cookie, whatever its host and path; of the one set last where there are several.
    pub(super) fn get(&self, name: &str, now: u64) -> Option<&str> {
        self.alive(now).filter(|cookie| cookie.name == name).last().map(|cookie| cookie.value.as_str())
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.cookies.retain(|cookie| cookie.name != name);
    }

    fn alive(&self, now: u64) -> impl Iterator<Item = &Cookie> {
        self.cookies.iter().filter(move |cookie| cookie.expires.is_none_or(|expires| expires > now))
    }
}

impl Cookie {
    fn is_for(&self, url: &Url) -> bool {
        let host = host_of(url);
        let host_fits = if self.host_only { host == self.domain } else { domain_matches(host, &self.domain) };
        host_fits && path_matches(url.path(), &self.path) && (!self.secure || url.scheme() == "https")
    }
}

/// Name and value of a `set-cookie` header.
pub(super) fn name_and_value(header: &str) -> Option<(&str, &str)> {
    let (name, value) = header.split(';').next()?.split_once('=')?;
    let name = name.trim_matches([' ', '\t']);
    (!name.is_empty()).then(|| (name, value.trim_matches([' ', '\t'])))
}

fn read(url: &Url, header: &str, now: u64) -> Option<Cookie> {
    let (name, value) =
        name_and_value(header).filter(|(name, value)| name.len() + value.len() <= LONGEST_COOKIE)?;
    let (mut domain, mut path, mut secure) = ("", default_path(url.path()), false);
    let (mut expires, mut max_age) = (None, None);
    for attribute in header.split(';').skip(1) {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let value = value.trim_matches([' ', '\t']);
        // What does not parse is as if it were not there.
        match key.trim_matches([' ', '\t']).to_ascii_lowercase().as_str() {
            "expires" => expires = date(value).or(expires),
            "max-age" => max_age = seconds(value).or(max_age),
            "domain" if !value.is_empty() => domain = value.strip_prefix('.').unwrap_or(value),
            "path" => path = if value.starts_with('/') { value } else { default_path(url.path()) },
            "secure" => secure = true,
            // `HttpOnly` hides cookies from scripts in browsers, `SameSite` from other sites: neither is here.
            _ => {}
        }
    }
    let host = host_of(url);
    let (domain, host_only) = match domain.to_ascii_lowercase() {
        none if none.is_empty() => (host.to_owned(), true),
        // A domain without a dot, such as `com`, is everybody's.
        domain if domain == host || domain.contains('.') && domain_matches(host, &domain) => (domain, false),
        _ => return None,
    };
    let expires = match max_age {
        Some(age) if age <= 0 => Some(0),
        Some(age) => Some(now.saturating_add(age.unsigned_abs())),
        None => expires,
    };
    let (name, value, path) = (name.to_owned(), value.to_owned(), path.to_owned());
    Some(Cookie { name, value, domain, host_only, path, secure, expires })
}

fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

fn domain_matches(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')) && !is_address(host)
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if at > 0 => &path[..at],
        _ => "/",
    }
}

/// Digits, with a minus or not; more seconds than a number holds are as many as it holds.
fn seconds(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// A date as servers write it (RFC 6265, 5.1.1), in seconds since 1970; one before that is 0.
fn date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let delimiter = |byte: char| matches!(byte, '\t' | ' '..='/' | ';'..='@' | '['..='`' | '{'..='~');
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(delimiter).filter(|token| !token.is_empty()) {
        if time.is_none()
            && let Some(read) = time_of_day(token)
        {
            time = Some(read);
        } else if day.is_none()
            && let Some(read) = leading_number(token, 1, 2)
        {
            day = Some(read);
        } else if month.is_none()
            && let Some(start) = token.get(..3)
            && let Some(at) = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(start))
        {
            month = Some(at as i8 + 1);
        } else if year.is_none()
            && let Some(read) = leading_number(token, 2, 4)
        {
            year = Some(match read {
                70..=99 => read + 1900,
                0..=69 => read + 2000,
                _ => read,
            });
        }
    }
    let (hour, minute, second) = time?;
    let year = year.filter(|year| *year >= 1601)?;
    let civil = DateTime::new(year, month?, i8::try_from(day?).ok()?, hour, minute, second, 0).ok()?;
    let instant = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(u64::try_from(instant.as_second()).unwrap_or(0))
}

/// `h:m:s`, each of one or two digits.
fn time_of_day(token: &str) -> Option<(i8, i8, i8)> {
    let mut parts = token.splitn(3, ':');
    let whole =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| leading_number(part, 1, 2))?;
    let (hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    let second = leading_number(parts.next()?, 1, 2)?;
    Some((hour as i8, minute as i8, second as i8))
}

/// The number that the token begins with, of so many digits.
fn leading_number(token: &str, least: usize, most: usize) -> Option<i16> {
    let digits = token.bytes().take_while(u8::is_ascii_digit).count();
    (least..=most).contains(&digits).then(|| token[..digits].parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn sent(jar: &Jar, to: &str, now: u64) -> String {
        let pairs = jar.sent_to(&url(to), now);
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_cookie_goes_where_its_host_path_and_scheme_allow() {
        for (from, header, to, goes) in [
            ("http://a.test/", "k=v", "http://a.test/x", true),
            ("http://a.test/", "k=v", "http://b.a.test/", false),
            ("http://a.test/", "k=v; Domain=a.test", "http://b.a.test/", true),
            ("http://b.a.test/", "k=v; domain=.A.test", "http://a.test/", true),
            ("http://b.a.test/", "k=v; domain=a.test", "http://xa.test/", false),
            ("http://b.a.test/", "k=v; domain=c.a.test", "http://c.a.test/", false),
            ("http://a.test/", "k=v; domain=test", "http://a.test/", false),
            ("http://127.0.0.1/", "k=v; domain=0.0.1", "http://127.0.0.1/", false),
            ("http://127.0.0.1/", "k=v; domain=127.0.0.1", "http://127.0.0.1:81/", true),
            ("http://[::1]/", "k=v", "http://[::1]:81/", true),
            ("http://localhost/", "k=v; domain=localhost", "http://localhost/", true),
            ("http://localhost/", "k=v", "http://127.0.0.1/", false),
            ("http://a.test/x/y", "k=v", "http://a.test/x", true),
            ("http://a.test/x/y", "k=v", "http://a.test/x/z/w", true),
            ("http://a.test/x/y", "k=v", "http://a.test/xy", false),
            ("http://a.test/x/y", "k=v", "http://a.test/", false),
            ("http://a.test/x/y", "k=v; path=/", "http://a.test/", true),
            ("http://a.test/x/y", "k=v; path=y", "http://a.test/x", true),
            ("http://a.test/", "k=v; path=/p/", "http://a.test/p/q", true),
            ("http://a.test/", "k=v; path=/p/", "http://a.test/p", false),
            ("https://a.test/", "k=v; Secure", "http://a.test/", false),
            ("https://a.test/", "k=v; Secure; HttpOnly; SameSite=Strict", "https://a.test/", true),
        ] {
            let mut jar = Jar::default();
            jar.store(&url(from), header, 0);
            assert_eq!(sent(&jar, to, 0), if goes { "k=v" } else { "" }, "{from} {header} {to}");
        }
    }

    #[test]
    fn longer_paths_come_first_and_then_what_was_set_first() {
        let mut jar = Jar::default();
        for header in ["a=1; path=/", "b=2; path=/x", "c=3; path=/", "d=4; path=/x/y", "a=5; path=/"] {
            jar.store(&url("http://a.test/"), header, 0);
        }
        assert_eq!(sent(&jar, "http://a.test/x/y", 0), "d=4; b=2; a=5; c=3");
        assert_eq!((jar.get("a", 0), jar.get("e", 0)), (Some("5"), None));
        jar.remove("a");
        assert_eq!(sent(&jar, "http://a.test/", 0), "c=3");
        jar.clear();
        assert!(jar.is_empty());
    }

    #[test]
    fn a_cookie_lives_as_long_as_its_server_says() {
        // 784111777 is the instant of RFC 9110's example date.
        const AT: u64 = 784_111_777;
        for (attributes, before, after) in [
            ("", true, true),
            ("; Expires=Sun, 06 Nov 1994 08:49:37 GMT", true, false),
            ("; expires=Sunday, 06-Nov-94 08:49:37 GMT", true, false),
            ("; expires=Sun Nov  6 08:49:37 1994", true, false),
            ("; expires=nonsense", true, true),
            ("; expires=Sun, 31 Feb 1994 08:49:37 GMT", true, true),
            ("; expires=Thu, 01 Jan 1970 00:00:00 GMT", false, false),
            ("; expires=Thu, 01 Jan 1601 00:00:00 GMT", false, false),
            ("; Max-Age=1", true, false),
            ("; max-age=0", false, false),
            ("; max-age=-5; expires=Fri, 31 Dec 9999 23:59:59 GMT", false, false),
            ("; max-age=2; expires=Thu, 01 Jan 1970 00:00:00 GMT", true, true),
            ("; max-age=99999999999999999999", true, true),
            ("; max-age=1h", true, true),
        ] {
            let mut jar = Jar::default();
            jar.store(&url("http://a.test/"), &format!("k=old{attributes}"), AT - 1);
            let there = |now| jar.get("k", now).is_some();
            assert_eq!((there(AT - 1), there(AT)), (before, after), "{attributes}");
        }
        let mut jar = Jar::default();
        jar.store(&url("http://a.test/"), "k=v", AT);
        jar.store(&url("http://a.test/"), "k=; max-age=0", AT);
        assert!(jar.is_empty(), "a past date removes what was there");
    }

    #[test]
    fn the_examples_of_rfc_6265_behave_as_it_says() {
        let mut jar = Jar::default();
        let at = url("https://www.example.com/");
        jar.store(&at, "SID=31d4d96e407aad42; Path=/; Secure; HttpOnly", 0);
        jar.store(&at, "lang=en-US; Path=/; Domain=example.com", 0);
        assert_eq!(sent(&jar, "https://www.example.com/", 0), "SID=31d4d96e407aad42; lang=en-US");
        assert_eq!(sent(&jar, "http://example.com/any", 0), "lang=en-US");
        jar.store(&at, "lang=; Domain=example.com; Expires=Sun, 06 Nov 1994 08:49:37 GMT", 1_400_000_000);
        assert_eq!(sent(&jar, "https://www.example.com/", 0), "SID=31d4d96e407aad42");
    }

    #[test]
    fn what_is_no_cookie_is_not_kept_and_a_jar_has_a_bound() {
        let mut jar = Jar::default();
        let at = url("http://a.test/");
        for header in ["", "novalue", "=nameless", " ; k=v", &format!("k={}", "x".repeat(LONGEST_COOKIE))] {
            jar.store(&at, header, 0);
            assert!(jar.is_empty(), "{header}");
        }
        for n in 0..MOST_COOKIES + 5 {
            jar.store(&at, &format!("k{n} = v = {n} ; path=/"), 0);
        }
        let pairs = jar.sent_to(&at, 0);
        assert_eq!((pairs.len(), pairs[0]), (MOST_COOKIES, ("k5", "v = 5")));
    }

    proptest! {
        #[test]
        fn any_header_is_read_and_what_it_sets_is_sent_back_to_its_host(header in "\\PC{0,80}", now: u64) {
            let mut jar = Jar::default();
            jar.store(&url("https://a.test/"), &header, now);
            if let Some((name, value)) = name_and_value(&header) && !header.contains(';') {
                prop_assert_eq!(jar.sent_to(&url("https://a.test/"), now), [(name, value)]);
            }
        }

        #[test]
        fn every_second_is_read_back_from_its_date(second in 0_i64..253_402_300_800) {
            let timestamp = jiff::Timestamp::from_second(second).unwrap();
            let written = timestamp.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            prop_assert_eq!(date(&written), Some(second as u64));
        }
    }
}
