//! Values that must not be written down, and what stands in their place.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::event::Event;
use super::redact;
use super::stats::{ErrorTally, Interval, ScenarioStats, Series};

/// What stands where a secret stood.
pub(crate) const MASK: &str = "***";

/// All but RFC 3986's unreserved characters.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What JavaScript's `encodeURIComponent` escapes.
const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');

/// What forms (`application/x-www-form-urlencoded`) escape, but for the space.
const FORM: &AsciiSet = &UNRESERVED.remove(b'*').add(b'~').remove(b' ');

/// What the URL standard escapes in the query of a URL that was written out.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\'');

/// And in its path.
const PATH: &AsciiSet = &QUERY.remove(b'\'').add(b'?').add(b'^').add(b'`').add(b'{').add(b'}');

/// The same before the URL standard had `^`, as many libraries do.
const OLD_PATH: &AsciiSet = &PATH.remove(b'^');

const OLD_SEGMENT: &AsciiSet = &SEGMENT.remove(b'^');

/// And where a path is made of segments.
const SEGMENT: &AsciiSet = &PATH.add(b'/').add(b'%').add(b'\\');

/// And in user information.
const USERINFO: &AsciiSet =
    &PATH.add(b'/').add(b':').add(b';').add(b'=').add(b'@').add(b'[').add(b'\\').add(b']').add(b'|');

/// The fewest characters that base64 of a part of a text is recognised by: fewer stand in other words by chance.
const FEWEST_OF_BASE64: usize = 6;

/// Values that must not be written, in the forms that texts have them in: as they are, as URLs, forms, JSON, Rust's `Debug`
/// and base64 have them. Some for each value, found once.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secrets {
    /// The longest first: one that contains another goes first, so that nothing of it is left.
    values: Vec<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl<'a> FromIterator<&'a str> for Secrets {
    /// A value of several lines is masked line by line, because output is, and in base64 as a whole, too.
    fn from_iter<I: IntoIterator<Item = &'a str>>(values: I) -> Self {
        let mut forms = Vec::new();
        for value in values.into_iter().filter(|value| !value.trim().is_empty()) {
            let lines = || value.lines().filter(|line| !line.trim().is_empty());
            lines().for_each(|line| written(line, &mut forms));
            // Where there is one line, and nothing after it, it is the value.
            let is_one = lines().eq([value]);
            lines().chain((!is_one).then_some(value)).for_each(|bytes| in_base64(bytes, &mut forms));
        }
        Self::of(forms)
    }
}

#[cfg(feature = "cli")]
impl FromIterator<Secrets> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secrets>>(sets: I) -> Self {
        Self::of(sets.into_iter().flat_map(|set| set.values).collect())
    }
}

/// Adds the forms in which a line stands in URLs, in forms, in JSON and in Rust's `Debug`.
fn written(line: &str, forms: &mut Vec<String>) {
    forms.push(line.to_owned());
    let url = [UNRESERVED, COMPONENT, FORM, QUERY, PATH, OLD_PATH, SEGMENT, OLD_SEGMENT, USERINFO];
    for set in url {
        let escaped = [utf8_percent_encode(line, set).to_string(), percent_in_lower_case(line, set)];
        forms.extend(escaped.map(|escaped| if set == FORM { escaped.replace(' ', "+") } else { escaped }));
    }
    let quoted = serde_json::Value::from(line).to_string();
    let json = quoted[1..quoted.len() - 1].to_owned();
    for json in [ascii_of_json(&json, false), ascii_of_json(&json, true), json] {
        forms.extend([json.replace('/', "\\/"), json]);
    }
    forms.push(line.escape_debug().to_string().replace("\\'", "'"));
}

/// JSON with escapes in the place of all that is not ASCII, as some writers have it.
fn ascii_of_json(json: &str, is_upper: bool) -> String {
    let escape = |unit: &mut u16| if is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
    let of = |c: char| match c {
        _ if c.is_ascii() => c.to_string(),
        _ => c.encode_utf16(&mut [0; 2]).iter_mut().map(escape).collect(),
    };
    json.chars().map(of).collect()
}

/// Percent-encoded, with the hexadecimal digits in lower case.
fn percent_in_lower_case(text: &str, set: &'static AsciiSet) -> String {
    let of = |c: char| {
        let plain = c.to_string();
        let escaped = utf8_percent_encode(&plain, set).to_string();
        if escaped == plain { plain } else { escaped.to_lowercase() }
    };
    text.chars().map(of).collect()
}

/// Adds base64 of a value that stands alone, and what is certain of it within base64 of a longer text, such as of
/// `user:password`: this depends on how many bytes are before it, modulo three. Padding stays, and says nothing.
fn in_base64(value: &str, forms: &mut Vec<String>) {
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let encoded = engine.encode([&[0; 2][..before], value.as_bytes()].concat());
            // Six bits a character: those with bits of a neighbour are left out.
            let (from, to) = ((before * 8).div_ceil(6), (before + value.len()) * 8 / 6);
            let parts = [encoded.get(from..), encoded.get(from..to)].into_iter().flatten();
            forms.extend(
                parts.filter(|part| *part == encoded || part.len() >= FEWEST_OF_BASE64).map(str::to_owned),
            );
        }
    }
}

impl Secrets {
    fn of(mut values: Vec<String>) -> Self {
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn mask<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        self.values.iter().fold(text.into(), |text, value| {
            if text.contains(value.as_str()) { Cow::Owned(text.replace(value, MASK)) } else { text }
        })
    }

    pub(crate) fn mask_in(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text.as_str()) {
            *text = masked;
        }
    }

    /// The length of the longest, in bytes.
    #[cfg(feature = "cli")]
    pub(crate) fn longest(&self) -> usize {
        self.values.first().map_or(0, String::len)
    }

    /// Masks what a scenario's code can have put into an event: messages, and names of its own.
    pub(crate) fn mask_event(&self, event: &mut Event) {
        match event {
            Event::Warning(warning) => warning.message = self.mask_message(&warning.message),
            Event::Failed(failure) => failure.message = self.mask_message(&failure.message),
            Event::Interval(interval) => self.mask_interval(interval),
            Event::Listing(_) | Event::PhaseStarted { .. } | Event::Aborted(_) | Event::Finished(_) => {}
        }
    }

    pub(crate) fn mask_interval(&self, interval: &mut Interval) {
        interval.scenarios.values_mut().for_each(|stats| self.mask_stats(stats));
    }

    /// A message can quote a URL whose credentials nobody has configured.
    fn mask_message(&self, message: &str) -> String {
        self.mask(redact::text(message)).into_owned()
    }

    fn mask_stats(&self, stats: &mut ScenarioStats) {
        let errors = std::mem::take(&mut stats.errors);
        stats.errors = ErrorTally { other: errors.other, ..ErrorTally::default() };
        for (message, count) in errors.messages {
            stats.errors.add(&self.mask_message(&message), count);
        }
        for series in stats.tagged.values_mut() {
            if let Series::Iterations(iterations) = series {
                self.mask_stats(iterations);
            }
        }
        if self.is_empty() {
            return;
        }
        // Names that become equal are one row.
        for (mut key, step) in std::mem::take(&mut stats.steps) {
            self.mask_in(&mut key.name);
            stats.steps.entry(key).or_default().merge(&step);
        }
        for (name, check) in std::mem::take(&mut stats.checks) {
            let own = stats.checks.entry(self.mask(name).into_owned()).or_default();
            own.merge(check);
        }
        for (name, metric) in std::mem::take(&mut stats.metrics) {
            stats.metrics.entry(self.mask(name).into_owned()).or_default().merge(&metric);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::event::{Failure, FailureKind, Warning};
    use super::super::stats::{Phase, StepKey, StepKind, StepStats};
    use super::*;

    #[test]
    fn a_secret_is_masked_whole_in_each_form_that_it_has() {
        let secrets: Secrets = ["key", "key ring/1", "two\nlines", " \n"].into_iter().collect();
        for (text, masked) in [
            ("a key ring/1 and a key", "a *** and a ***"),
            ("GET /key%20ring%2F1", "GET /***"),
            ("GET /key%20ring%2f1", "GET /***"),
            ("GET /key%20ring/1", "GET /***"),
            ("a=key+ring%2F1", "a=***"),
            (r#"{"a":"key ring\/1"}"#, r#"{"a":"***"}"#),
            ("token a2V5IHJpbmcvMQ==", "token ***=="),
            // Of `me:key ring/1`: all but a character that has bits of the colon.
            ("Basic bWU6a2V5IHJpbmcvMQ==", "Basic bWU6***=="),
            ("Basic bWUyOmtleSByaW5nLzE=", "Basic bWUyOm***="),
            // Of both lines.
            ("token dHdvCmxpbmVz", "token ***"),
            ("two, lines", "***, ***"),
            ("nothing of the kind", "nothing of the kind"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        assert!(!format!("{secrets:?}").contains("key"));
        let many: Secrets = ["aé/\"\\ ^'~*;|<\u{1}z"].into_iter().collect();
        assert!(many.values.len() <= 32, "{}", many.values.len());
        assert!(["sesame42"].into_iter().collect::<Secrets>().values.len() <= 7);
    }

    /// What `form` makes of text with `secret` in it, masked.
    fn left_of(secret: &str, form: impl Fn(&str) -> String) -> String {
        let secrets: Secrets = [secret].into_iter().collect();
        secrets.mask(format!("before {} after", form(secret))).into_owned()
    }

    proptest! {
        #[test]
        fn no_form_of_a_secret_gets_through(secret in r#"[!-~éß漢😀][ -~éß漢😀]{6,30}[!-~éß漢😀]"#, user in "[a-z]{1,4}") {
            let url = url::Url::parse("http://host/").unwrap();
            let forms: [(&str, &dyn Fn(&str) -> String); 12] = [
                ("as it is", &|text| text.to_owned()),
                ("percent", &|text| utf8_percent_encode(text, UNRESERVED).to_string()),
                ("percent in lower case", &|text| {
                    let mut escaped = String::new();
                    for byte in text.bytes() {
                        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                            escaped.push(byte.into());
                        } else {
                            escaped += &format!("%{byte:02x}");
                        }
                    }
                    escaped
                }),
                ("form", &|text| url::form_urlencoded::byte_serialize(text.as_bytes()).collect()),
                ("query", &|text| {
                    let mut url = url.clone();
                    url.set_query(Some(text));
                    url.query().unwrap_or_default().to_owned()
                }),
                ("segment", &|text| {
                    let mut url = url.clone();
                    url.path_segments_mut().unwrap().push(text);
                    url.path()[1..].to_owned()
                }),
                ("user information", &|text| {
                    let mut url = url.clone();
                    url.set_password(Some(text)).unwrap();
                    url.password().unwrap_or_default().to_owned()
                }),
                ("JSON", &|text| serde_json::to_string(text).unwrap()),
                ("JSON in ASCII", &|text| {
                    let json = serde_json::to_string(text).unwrap();
                    let escaped = json.encode_utf16().map(|unit| match u8::try_from(unit) {
                        Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
                        _ => format!("\\u{unit:04x}"),
                    });
                    escaped.collect()
                }),
                ("Debug", &|text| format!("{text:?}")),
                ("base64", &|text| base64::engine::general_purpose::STANDARD.encode(text)),
                ("base64 of URLs", &|text| base64::engine::general_purpose::URL_SAFE.encode(text)),
            ];
            for (name, form) in forms {
                // A dot segment vanishes, and so does what a secret of dots would be.
                let whole = form(&secret);
                let bare = whole.trim_matches(['"', '=']);
                prop_assume!(!bare.is_empty());
                let left = left_of(&secret, form);
                prop_assert!(left.contains(MASK), "{}: {} of {}", name, left, whole);
                prop_assert!(!left.contains(bare), "{}: {} of {}", name, left, whole);
                prop_assert!(left.len() <= "before  after".len() + MASK.len() + 4, "{}: {} of {}", name, left, whole);
            }
            let basic = |text: &str| base64::engine::general_purpose::STANDARD.encode(format!("{user}:{text}"));
            let (left, whole) = (left_of(&secret, basic), basic(&secret));
            // At each end a character can have bits of both.
            prop_assert!(left.len() <= "before  after".len() + 8 + MASK.len() + 4, "{} of {}", left, whole);
        }
    }

    #[test]
    fn sets_of_secrets_add_up_and_nothing_more() {
        let [one, two] = ["a b/c", "d e/f"].map(|value| [value].into_iter().collect::<Secrets>());
        let both: Secrets = [one, two].into_iter().collect();
        assert_eq!(both, ["d e/f", "a b/c"].into_iter().collect());
    }

    #[test]
    fn a_secret_is_in_no_event() {
        let secrets: Secrets = ["canary"].into_iter().collect();
        let step = |name: &str| StepKey { kind: StepKind::Request, name: name.to_owned() };
        let mut stats = ScenarioStats::default();
        stats.errors.add("login with canary failed at http://user:pw@host/?k=v", 2);
        stats.errors.other = 1;
        stats.steps.insert(step("GET /canary"), StepStats { count: 1, ..StepStats::default() });
        stats.steps.insert(step("GET /Y2FuYXJ5"), StepStats { count: 4, ..StepStats::default() });
        stats.steps.insert(step("GET /***"), StepStats { count: 2, ..StepStats::default() });
        stats.checks.entry("canary sings".to_owned()).or_default().passes = 3;
        let mut interval = Event::Interval(Interval {
            phase: Phase::Load,
            start_ms: 0,
            end_ms: 1000,
            scenarios: [("s".to_owned(), stats)].into(),
        });
        secrets.mask_event(&mut interval);
        let Event::Interval(Interval { scenarios, .. }) = &interval else { panic!("{interval:?}") };
        let stats = &scenarios["s"];
        assert_eq!(
            stats.errors.messages,
            [("login with *** failed at http://REDACTED@host/?k=REDACTED".to_owned(), 2)]
        );
        assert_eq!(stats.errors.other, 1);
        assert_eq!(stats.steps[&step("GET /***")].count, 7);
        assert_eq!(stats.checks["*** sings"].passes, 3);
        for mut event in [
            interval.clone(),
            Event::Warning(Warning::new("w", "canary")),
            Event::Failed(Failure { kind: FailureKind::Run, message: "canary".to_owned() }),
        ] {
            secrets.mask_event(&mut event);
            let json = serde_json::to_string(&event).unwrap();
            assert!(!json.contains("canary"), "{json}");
        }
    }
}
