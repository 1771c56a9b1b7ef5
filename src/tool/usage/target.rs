//! Processes that somebody else started and that are to be watched: by id or by name.

use std::fmt;
use std::str::FromStr;

use crate::model::event::Warning;
use crate::tool::config::nearest;

/// Linux keeps so many bytes of a process's name.
const NAME_BYTES: usize = 15;

/// A process, or all that have one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Pid(u32),
    /// As `ps -e -o comm` prints it.
    Name(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}` is no process; write its id, or its name as `ps -e -o comm` prints it: without its path and its \
                 arguments"
            )
        };
        if text.chars().all(|c| c.is_ascii_digit()) {
            return text.parse().ok().filter(|pid| *pid > 0).map(Self::Pid).ok_or_else(refuse);
        }
        if text.trim() != text || text.contains(['/', ',']) || text.chars().any(char::is_control) {
            return Err(refuse());
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "{pid}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Target {
    /// The ids of the processes in `table` that it means.
    pub(super) fn find(&self, table: &[(u32, String)]) -> Vec<u32> {
        let is_meant = |(pid, comm): &&(u32, String)| match self {
            Self::Pid(wanted) => pid == wanted,
            Self::Name(name) => cut(name) == comm,
        };
        table.iter().filter(is_meant).map(|(pid, _)| *pid).collect()
    }

    /// What to say where it means none of the processes in `table`.
    pub(super) fn unknown(&self, table: &[(u32, String)]) -> Warning {
        let message = match self {
            Self::Pid(pid) => format!(
                "there is no process {pid} to watch as the load begins; its use of this host is not in the report"
            ),
            Self::Name(name) => {
                let near = nearest(cut(name), table.iter().map(|(_, comm)| comm.as_str()));
                let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                format!(
                    "there is no process `{name}` to watch as the load begins{near}; if none comes, its use of this host is \
                     not in the report. A name is what `ps -e -o comm` prints."
                )
            }
        };
        Warning::new("watch-unknown", message)
    }
}

/// A name as the kernel keeps it.
fn cut(name: &str) -> &str {
    let end = (0..=name.len().min(NAME_BYTES)).rev().find(|at| name.is_char_boundary(*at));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_read_and_nonsense_is_refused() {
        assert_eq!("4242".parse(), Ok(Target::Pid(4242)));
        for name in ["postgres", "7zip", "Web Content", "kworker-0:1"] {
            assert_eq!(name.parse(), Ok(Target::Name(name.to_owned())));
        }
        for text in ["", "0", "99999999999", "/usr/bin/postgres", " a", "a\n", "a,b"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains("is no process") && error.contains("ps -e -o comm"), "{error}");
        }
    }

    #[test]
    fn a_name_means_every_process_that_has_it_also_when_the_kernel_has_cut_it_off() {
        let table: Vec<(u32, String)> =
            [(7, "postgres"), (9, "auth"), (12, "postgres"), (15, "blog-notificati")]
                .map(|(pid, name)| (pid, name.to_owned()))
                .to_vec();
        let found = |text: &str| text.parse::<Target>().unwrap().find(&table);
        assert_eq!(found("postgres"), [7, 12]);
        assert_eq!(found("blog-notifications"), [15]);
        assert_eq!(found("9"), [9]);
        assert_eq!(found("post"), [0; 0]);
        assert_eq!(found("10"), [0; 0]);
        let told = |text: &str| text.parse::<Target>().unwrap().unknown(&table).message;
        assert!(
            told("postgress").contains("no process `postgress`") && told("postgress").contains("`postgres`?")
        );
        assert!(told("10").contains("no process 10 "));
    }
}
