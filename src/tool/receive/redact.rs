//! Taking secrets out of spans that are kept: sensitive headers, literals in database queries, process arguments, and,
//! as in any text, what URLs have. Pure. When in doubt, something goes.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

pub(crate) use crate::model::redact::text;
use crate::model::redact::{REDACTED, SECRET_HEADERS, query};
use crate::model::secret::Secrets;

/// Before a header's name in the key of an attribute.
const HEADER_KEYS: [&str; 6] = [
    "http.request.header.",
    "http.response.header.",
    "rpc.request.metadata.",
    "rpc.response.metadata.",
    "rpc.grpc.request.metadata.",
    "rpc.grpc.response.metadata.",
];

/// Last parts of attribute keys whose values are secret, whoever set them.
const SECRET_KEYS: [&str; 14] = [
    "access_token",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passwd",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "set_cookie",
    "token",
];

/// What is taken out of attributes.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    secrets: Secrets,
}

impl Redactor {
    /// `secrets` are taken out wherever they stand.
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets }
    }

    /// Redacts the URLs and the secrets in a text.
    pub(crate) fn text(&self, given: &mut String) {
        if let Cow::Owned(redacted) = text(given) {
            *given = redacted;
        }
        self.secrets.mask_in(given);
    }

    /// Takes the secrets out of `attributes`; keys stay.
    pub(crate) fn attributes(&self, attributes: &mut [KeyValue]) {
        for attribute in attributes {
            if let Some(value) = &mut attribute.value {
                self.attribute(&attribute.key, value);
            }
        }
    }

    fn attribute(&self, key: &str, value: &mut AnyValue) {
        let key = key.to_ascii_lowercase();
        let header = HEADER_KEYS.iter().find_map(|prefix| key.strip_prefix(prefix));
        let last = key.rsplit('.').next().unwrap_or_default().replace('-', "_");
        if header.is_some_and(|name| SECRET_HEADERS.contains(&header_name(name).as_str()))
            || SECRET_KEYS.contains(&last.as_str())
            || key.starts_with("db.query.parameter.")
            || key.starts_with("db.operation.parameter.")
        {
            value.value = Some(Value::StringValue(REDACTED.to_owned()));
            return;
        }
        match key.as_str() {
            "db.query.text" | "db.statement" => in_strings(value, &|text| sql(text).into()),
            "url.query" => in_strings(value, &|text| query(text).into()),
            "process.command_line" | "process.command_args" => arguments(value),
            _ => self.nested(value),
        }
        in_strings(value, &|text| self.secrets.mask(text));
    }

    fn nested(&self, value: &mut AnyValue) {
        match &mut value.value {
            Some(Value::KvlistValue(list)) => self.attributes(&mut list.values),
            Some(Value::ArrayValue(array)) => array.values.iter_mut().for_each(|value| self.nested(value)),
            _ => in_strings(value, &text),
        }
    }
}

fn header_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Applies `redact` to the string in `value`, or to those in its array. (prost bounds how deep arrays can be.)
fn in_strings(value: &mut AnyValue, redact: &dyn Fn(&str) -> Cow<'_, str>) {
    match &mut value.value {
        Some(Value::StringValue(text)) => {
            if let Cow::Owned(redacted) = redact(text) {
                *text = redacted;
            }
        }
        Some(Value::ArrayValue(array)) => {
            array.values.iter_mut().for_each(|value| in_strings(value, redact));
        }
        _ => {}
    }
}

/// Keeps the program and drops its arguments.
fn arguments(value: &mut AnyValue) {
    match &mut value.value {
        Some(Value::StringValue(line)) => {
            if let Some((program, _)) = line.trim_start().split_once(char::is_whitespace) {
                *line = format!("{program} {REDACTED}");
            }
        }
        Some(Value::ArrayValue(array)) => {
            for argument in array.values.iter_mut().skip(1) {
                argument.value = Some(Value::StringValue(REDACTED.to_owned()));
            }
        }
        _ => {}
    }
}

/// A query text with `?` in the place of its literals and without its comments, whose quotes would be taken for those of
/// literals. What is in double quotes counts as a literal: it is one in some dialects. The text ends where dialects
/// disagree on where a literal or a comment ends: at a backslash before a quote, a nested comment, a `#` before a space.
pub(crate) fn sql(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => {
                let inside = &rest[2..];
                let Some(end) = inside.find("*/").filter(|&end| !inside[..end].contains("/*")) else {
                    return redacted;
                };
                end + 4
            }
            '#' if rest[1..].starts_with(char::is_whitespace) => return redacted,
            '`' => {
                let Some(end) = rest[1..].find('`') else { return redacted };
                redacted.push_str(&rest[..end + 2]);
                end + 2
            }
            '\'' | '"' => {
                redacted.push('?');
                let inside = &rest[1..];
                let Some(end) = inside.find(c).filter(|&end| !inside[..end].ends_with('\\')) else {
                    return redacted;
                };
                end + 2
            }
            '$' => {
                let length = dollar_quoted(rest);
                redacted.push(if length.is_some() { '?' } else { '$' });
                length.unwrap_or(1)
            }
            '0'..='9' if !in_word => {
                redacted.push('?');
                rest.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(rest.len())
            }
            _ => {
                redacted.push(c);
                c.len_utf8()
            }
        };
        // `$1`, `:1`, `@p1`, `?1` are parameters, `t1` is a name: no literals.
        in_word = c.is_alphabetic() || c == '_' || "$:@?".contains(c) || (in_word && c.is_ascii_digit());
        rest = &rest[length..];
    }
    redacted
}

/// The length of the string in dollar quotes (`$tag$…$tag$`) that `text` begins with.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = text[1..].find('$').map(|end| &text[..end + 2])?;
    let name = &tag[1..tag.len() - 1];
    let is_tag = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| text[tag.len()..].find(tag).map_or(text.len(), |end| end + 2 * tag.len()))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::ArrayValue;
    use proptest::prelude::*;

    use super::super::decode::tests::{attribute, string};
    use super::*;

    fn strings(of: &[KeyValue]) -> Vec<String> {
        of.iter().map(|attribute| format!("{:?}", attribute.value)).collect()
    }

    #[test]
    fn queries_of_databases_keep_their_shape_and_lose_their_literals() {
        for (given, want) in [
            ("SELECT id FROM t1 WHERE a = 'x' AND b = 42", "SELECT id FROM t1 WHERE a = ? AND b = ?"),
            (
                "WHERE a = $1 AND b = ?2 AND c = :3 AND d = @p4",
                "WHERE a = $1 AND b = ?2 AND c = :3 AND d = @p4",
            ),
            ("VALUES ('it''s', 1.5e10, 0xFF, x'ab')", "VALUES (??, ?, ?, x?)"),
            ("a = 'it\\'s secret'", "a = ?"),
            ("a = 'never closed", "a = ?"),
            ("a = \"mysql\" AND `b` = -7", "a = ? AND `b` = -?"),
            ("a = $$one$$ AND b = $t$two$t$ AND c = $3", "a = ? AND b = ? AND c = $3"),
            ("a = $t$never closed", "a = ?"),
            ("a = 'é' AND ü = 1", "a = ? AND ü = ?"),
            ("a -- it's\n = 'x'", "a \n = ?"),
            ("a /* it's */ = 'x' /* never closed", "a  = ? "),
            ("a /* /* it's */ ' */ = 'x'", "a "),
            ("a # it's\n = 'x'", "a "),
            ("a #> '{b}'", "a #> ?"),
            ("`it's` = 'x' AND `never", "`it's` = ? AND "),
        ] {
            assert_eq!(sql(given), want);
        }
    }

    #[test]
    fn a_canary_is_found_in_no_attribute() {
        let canary = |key: &str| string(key, "canary");
        let mut attributes = vec![
            canary("http.request.header.authorization"),
            attribute(
                "http.response.header.Set_Cookie",
                Value::ArrayValue(ArrayValue {
                    values: vec![AnyValue { value: Some(Value::StringValue("canary".into())) }],
                }),
            ),
            canary("rpc.grpc.request.metadata.x-api-key"),
            canary("user.password"),
            canary("auth.access-token"),
            canary("db.query.parameter.0"),
            string("url.full", "https://canary:canary@host/?q=canary#canary"),
            string("url.query", "q=canary"),
            string("http.target", "/a?q=canary"),
            string("db.query.text", "SELECT 'canary'"),
            string("db.statement", "SELECT \"canary\""),
            string("db.connection_string", "postgres://app:canary@db/app"),
            string("exception.message", "connecting to http://canary@db failed"),
            string("process.command_line", "server --token canary"),
            string("app.note", "a canary of the configuration"),
            attribute(
                "process.command_args",
                Value::ArrayValue(ArrayValue {
                    values: ["server", "canary"]
                        .map(|text| AnyValue { value: Some(Value::StringValue(text.into())) })
                        .into(),
                }),
            ),
        ];
        let keys: Vec<_> = attributes.iter().map(|attribute| attribute.key.clone()).collect();
        Redactor::new(["canary"].into_iter().collect()).attributes(&mut attributes);
        for (key, text) in keys.iter().zip(strings(&attributes)) {
            assert!(!text.contains("canary"), "{key}: {text}");
        }
        assert!(keys.iter().eq(attributes.iter().map(|attribute| &attribute.key)));
    }

    #[test]
    fn what_is_no_secret_stays() {
        let mut attributes = vec![
            string("http.request.header.content-type", "application/json"),
            string("url.full", "http://host/users"),
            string("code.function.name", "hash"),
            attribute("http.response.status_code", Value::IntValue(200)),
        ];
        let before = attributes.clone();
        Redactor::new(Secrets::default()).attributes(&mut attributes);
        assert_eq!(attributes, before);
    }

    proptest! {
        #[test]
        fn what_is_redacted_stays_as_it_is(given in "(https?://|[a-z]{1,3}|[/:?#@&=;%'\" <>`.\u{e9}]|.){0,20}") {
            let once = text(&given).into_owned();
            prop_assert_eq!(&text(&once), &once);
            let once = query(&given);
            prop_assert_eq!(&query(&once), &once);
        }

        #[test]
        fn a_statement_is_its_words_with_question_marks_for_its_literals(
            pieces in prop::collection::vec(
                prop_oneof![
                    "[a-zé_][a-z0-9é_]{0,5}|[=<>+*,().;]|[$:@][a-z0-9]{1,3}|\\?[0-9]|`[a-z' \"]{1,5}`".prop_map(|it| (it.clone(), it)),
                    "[0-9]{1,4}(\\.[0-9]{1,2})?|0x[0-9a-f]{1,4}".prop_map(|it| (it, "?".to_owned())),
                    "'[a-z0-9é \"#$*/-]{0,6}'|\"[a-z0-9é '#$*/-]{0,6}\"".prop_map(|it| (it, "?".to_owned())),
                    "[$]t[$][a-z0-9 '\"]{0,6}[$]t[$]".prop_map(|it| (it, "?".to_owned())),
                    "/[*][a-z0-9 '\"]{0,6}[*]/".prop_map(|it| (it, String::new())),
                ],
                0..10,
            ),
        ) {
            let [given, want] = [0, 1].map(|at| {
                let of = |(given, want): &(String, String)| if at == 0 { given.clone() } else { want.clone() };
                pieces.iter().map(of).collect::<Vec<_>>().join(" ")
            });
            prop_assert_eq!(sql(&given), want, "{}", given);
        }

        #[test]
        fn no_quoted_literal_gets_through(
            value in "[a-z]{12}",
            before in prop::collection::vec(
                prop_oneof![
                    "[a-z =$0-9(),]{0,6}",
                    "'[a-z#*/-]{0,5}'",
                    "-- [a-z']{0,5}\n",
                    "/[*] [a-z']{0,5}[*]/",
                ],
                0..6,
            ),
        ) {
            let redacted = sql(&format!("{} '{value}'", before.concat()));
            prop_assert!(!redacted.contains(&value));
        }
    }
}
