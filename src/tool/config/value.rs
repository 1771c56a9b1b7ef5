//! Values that may be secret: written plainly, or taken from a variable and never shown.

use std::collections::BTreeMap;
use std::fmt;

use super::error::ConfigError;
use super::source::Sourced;

/// What stands in place of a secret.
pub(super) const MASK: &str = "***";

/// The value of a variable or header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Plain(String),
    /// `{ env = "VARIABLE" }`; `value` is `None` while the variable is not set.
    Secret {
        variable: String,
        value: Option<String>,
    },
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(value) => f.debug_tuple("Plain").field(value).finish(),
            Self::Secret { variable, value } => f
                .debug_struct("Secret")
                .field("variable", variable)
                .field("value", &value.as_ref().map(|_| MASK))
                .finish(),
        }
    }
}

/// Named values of one table, each with its source.
pub(crate) type Values = BTreeMap<String, Sourced<Value>>;

/// Gives each secret the value that its variable has in `env`.
pub(super) fn look_up(values: &mut Values, env: &BTreeMap<String, String>) {
    for entry in values.values_mut() {
        if let Value::Secret { variable, value } = &mut entry.value {
            *value = env.get(variable).cloned();
        }
    }
}

/// The values in the clear. A secret whose variable is not set is an error; `table` names where it stands.
pub(crate) fn reveal(table: &str, values: &Values) -> Result<BTreeMap<String, String>, ConfigError> {
    values
        .iter()
        .map(|(key, entry)| match &entry.value {
            Value::Plain(value) | Value::Secret { value: Some(value), .. } => {
                Ok((key.clone(), value.clone()))
            }
            Value::Secret { variable, value: None } => Err(ConfigError::SecretNotSet {
                at: entry.source.clone(),
                key: format!("{table}.{key}"),
                variable: variable.clone(),
            }),
        })
        .collect()
}

/// The secrets among `values`, for masking them in what others print.
pub(super) fn secrets(values: &Values) -> impl Iterator<Item = &str> {
    values.values().filter_map(|entry| match &entry.value {
        Value::Secret { value: Some(value), .. } => Some(value.as_str()),
        _ => None,
    })
}
