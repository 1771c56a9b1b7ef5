//! Values that may be secret: written plainly, or taken from elsewhere and never shown.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::percent_decode_str;

use super::error::ConfigError;
use super::source::Sourced;

/// What stands in place of a secret.
pub(super) const MASK: &str = "***";

/// A value of a `.env` file that is shorter says nothing, and would be masked in the middle of words.
const SHORTEST_MASKED: usize = 4;

/// The value of a variable or header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Plain(String),
    /// Of a `.env` file: not shown, whatever it is.
    Dotenv(String),
    /// `{ env = "VARIABLE" }` or `{ file = "PATH" }`; what is there, or why it is not.
    Secret {
        from: Origin,
        value: Result<String, String>,
    },
}

/// Where a secret is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Variable(String),
    /// From the workspace root.
    File(String),
}

impl Value {
    /// A secret that has not been looked up.
    pub(super) fn secret(from: Origin) -> Self {
        let why = match from {
            Origin::Variable(_) => "which is not set",
            Origin::File(_) => "which was not read",
        };
        Self::Secret { from, value: Err(why.to_owned()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::File(path) => write!(f, "the file {path}"),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(value) => f.debug_tuple("Plain").field(value).finish(),
            Self::Dotenv(_) => f.debug_tuple("Dotenv").field(&MASK).finish(),
            Self::Secret { from, value } => f
                .debug_struct("Secret")
                .field("from", from)
                .field("value", &value.as_ref().map(|_| MASK))
                .finish(),
        }
    }
}

/// Named values of one table, each with its source.
pub(crate) type Values = BTreeMap<String, Sourced<Value>>;

/// Gives each secret what is at its origin.
pub(super) fn look_up(values: &mut Values, look: &impl Fn(&Origin) -> Result<String, String>) {
    for entry in values.values_mut() {
        if let Value::Secret { from, value } = &mut entry.value {
            *value = look(from);
        }
    }
}

/// The values in the clear. A secret that is not there is an error; `table` names where it stands.
pub(crate) fn reveal(table: &str, values: &Values) -> Result<BTreeMap<String, String>, ConfigError> {
    reveal_as(table, values, str::to_owned)
}

/// The same as templates with placeholders: the braces of what was taken from elsewhere are no placeholders.
pub(crate) fn reveal_templates(
    table: &str,
    values: &Values,
) -> Result<BTreeMap<String, String>, ConfigError> {
    reveal_as(table, values, |secret| secret.replace('{', "{{").replace('}', "}}"))
}

fn reveal_as(
    table: &str,
    values: &Values,
    secret: impl Fn(&str) -> String,
) -> Result<BTreeMap<String, String>, ConfigError> {
    values
        .iter()
        .map(|(key, entry)| {
            let value = match &entry.value {
                Value::Plain(value) => value.clone(),
                Value::Dotenv(value) | Value::Secret { value: Ok(value), .. } => secret(value),
                Value::Secret { from, value: Err(why) } => {
                    return Err(ConfigError::NoSecret {
                        at: Box::new(entry.source.clone()),
                        key: format!("{table}.{key}"),
                        from: from.clone(),
                        why: why.clone(),
                    });
                }
            };
            Ok((key.clone(), value))
        })
        .collect()
}

/// The secrets among `values`, for masking them in what others print. Of a `.env` file those whose name says that they are:
/// to mask every `1` and `debug` of one would make a report unreadable.
pub(super) fn secrets(values: &Values) -> impl Iterator<Item = Cow<'_, str>> {
    values.iter().flat_map(|(key, entry)| {
        let (value, is_secret) = match &entry.value {
            Value::Secret { value: Ok(value), .. } => (value, true),
            Value::Dotenv(value) => (value, names_a_secret(key) && value.len() >= SHORTEST_MASKED),
            Value::Plain(_) | Value::Secret { value: Err(_), .. } => return Vec::new(),
        };
        let mut secrets = password(value);
        secrets.extend(is_secret.then_some(Cow::Borrowed(value.as_str())));
        secrets
    })
}

/// The password in a URL, as it stands there and decoded: it can be written apart from its URL. One that is also the name of
/// the user (`postgres:postgres`) is nobody's secret, and would be masked wherever else the word stands.
fn password(url: &str) -> Vec<Cow<'_, str>> {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    match user.and_then(|user| user.split_once(':')) {
        Some((name, password)) if password.len() >= SHORTEST_MASKED && password != name => {
            vec![Cow::Borrowed(password), percent_decode_str(password).decode_utf8_lossy()]
        }
        _ => Vec::new(),
    }
}

/// Whether a variable's name says that its value is not for others' eyes.
pub(super) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "cookie", "credential", "passw", "secret", "token"]
        .iter()
        .any(|word| name.contains(word))
        || name
            .split(['-', '_', '.'])
            .any(|word| matches!(word, "apikey" | "auth" | "dsn" | "jwt" | "key" | "pass" | "pwd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_by_their_words_that_a_value_is_secret() {
        for name in
            ["DB_PASS", "pass", "SENTRY_DSN", "JWT", "jwt-signing", "REDIS_AUTH", "PGPASSWORD", "API_KEY"]
        {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["COMPASS", "BYPASS_CACHE", "AUTHOR", "KEYBOARD", "DATABASE_URL"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn a_password_is_found_in_a_url_and_nowhere_else() {
        for (url, want) in [
            ("postgres://ada:hunter2@db:5432/x", vec!["hunter2", "hunter2"]),
            ("redis://:p%40ssword@cache", vec!["p%40ssword", "p@ssword"]),
            ("postgres://ada:a@b:c@db/x", vec!["a@b:c", "a@b:c"]),
            ("postgres://postgres:postgres@db/x", vec![]),
            ("http://ada:abc@host", vec![]),
            ("http://ada@host", vec![]),
            ("http://127.0.0.1:8080/users/@me", vec![]),
            ("ada:hunter2@host", vec![]),
        ] {
            assert_eq!(password(url), want, "{url}");
        }
    }
}
