//! Values that may be secret: written plainly, or taken from elsewhere and never shown.

use std::collections::BTreeMap;
use std::fmt;

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
pub(super) fn secrets(values: &Values) -> impl Iterator<Item = &str> {
    values.iter().filter_map(|(key, entry)| match &entry.value {
        Value::Secret { value: Ok(value), .. } => Some(value.as_str()),
        Value::Dotenv(value) if names_a_secret(key) && value.len() >= SHORTEST_MASKED => Some(value.as_str()),
        _ => None,
    })
}

/// Whether a variable's name says that its value is not for others' eyes.
pub(super) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "cookie", "credential", "passw", "secret", "token"]
        .iter()
        .any(|word| name.contains(word))
        || name.split(['-', '_', '.']).any(|word| matches!(word, "key" | "apikey" | "pwd"))
}
