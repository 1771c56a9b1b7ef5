//! What can be wrong with a configuration. Each says where and, for a name, what it may have been meant to be.

use std::io;
use std::path::PathBuf;

use super::source::Source;
use super::value::Origin;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("both {} and {} exist; keep one of them", first.display(), second.display())]
    TwoFiles { first: PathBuf, second: PathBuf },
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, column: usize, message: String },
    #[error("{}:{line}:{column}: unknown key `{key}`{}", path.display(), meant(nearest.as_deref()))]
    UnknownKey { path: PathBuf, line: usize, column: usize, key: String, nearest: Option<String> },
    #[error("{}:{line}:{column}: `{key}` must be {expected}, but it is {found}", path.display())]
    WrongType {
        path: PathBuf,
        line: usize,
        column: usize,
        key: String,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{at}: `{key}`: {message}")]
    Invalid { at: Source, key: String, message: String },
    #[error("{}: {message}", name)]
    InvalidVariable { name: &'static str, message: String },
    #[error("unknown variable {name} in the environment{}", meant(nearest.as_deref()))]
    UnknownVariable { name: String, nearest: Option<String> },
    #[error("{first} ({first_at}) and {second} ({second_at}) say different loads; give one of them")]
    Conflict { first: &'static str, first_at: Box<Source>, second: &'static str, second_at: Box<Source> },
    #[error("unknown profile `{name}` (from {at}){}; there is: {}", meant(nearest.as_deref()), known.join(", "))]
    UnknownProfile { name: String, at: Box<Source>, nearest: Option<String>, known: Vec<String> },
    #[error("{at}: service `{name}`: {message}")]
    Service { at: Source, name: String, message: String },
    #[error("{at}: `{key}` is to be taken from {from}, {why}")]
    NoSecret { at: Box<Source>, key: String, from: Origin, why: String },
    #[error("{}:{line}: {message}", path.display())]
    Dotenv { path: PathBuf, line: usize, message: String },
    #[error("{at}: `env-file`: there is no file {}", path.display())]
    NoEnvFile { at: Source, path: PathBuf },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The known name that `name` was most likely meant to be.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(name.len()) / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let known = ["base-url", "trace", "keep-runs"];
        assert_eq!(nearest("base_url", known).as_deref(), Some("base-url"));
        assert_eq!(nearest("trcae", known).as_deref(), Some("trace"));
        assert_eq!(nearest("services", known), None);
    }
}
