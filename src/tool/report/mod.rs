//! Reports: results in, text and bytes out. Nothing here reads a file, draws load or calls back into a run.
//!
//! - [`text::report`]: the page for people.
//! - [`json`]: `summary.json` and the messages of `--message-format json`.
//! - [`progress`]: the line that tells how a run is going.

mod attribution;
pub(crate) mod json;
mod phases;
mod processes;
pub(crate) mod progress;
pub(crate) mod text;

/// Whether text is for a terminal that shows colours. The caller knows: it looks at the stream, at `NO_COLOR` and at
/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Colour,
}

impl Style {
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn mark(self, passed: bool) -> String {
        if passed { self.green("✓") } else { self.red("✗") }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Colour if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{json, text};
    use crate::model::sample;
    use crate::model::table::Column;
    use crate::model::verdict::Outcome;

    fn keys(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(object) => {
                for (key, value) in object {
                    into.push(key.clone());
                    keys(value, into);
                }
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
            _ => {}
        }
    }

    #[test]
    fn the_page_on_the_summary_names_every_field() {
        let page = include_str!("../../../docs/summary.md");
        let words: Vec<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut names = Vec::new();
        keys(&serde_json::from_slice(&json::summary(&sample::summary())).unwrap(), &mut names);
        for name in &names {
            let is_status = name.parse::<u16>().is_ok();
            assert!(is_status || words.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn the_page_on_the_report_shows_what_is_printed_and_every_column() {
        let page = include_str!("../../../docs/reading-the-report.md");
        let printed = text::report(&sample::summary(), &text::Options::default());
        let shown: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
        assert_eq!(shown.len(), 3);
        for line in shown.iter().flat_map(|block| block.strip_prefix("text\n").unwrap().lines()) {
            assert!(printed.lines().any(|known| known == line), "{line}");
        }
        let columns = page.lines().find(|line| line.trim().starts_with("`count errors")).unwrap();
        let columns = columns.trim().trim_matches(['`', '.']).replace(' ', ",");
        assert_eq!(columns.split(',').filter(|name| name.trim().parse::<Column>().is_ok()).count(), 12);
    }

    #[test]
    fn the_page_on_exit_codes_has_each_code_and_its_verdict() {
        use Outcome::{
            BuildFailed, CouldNotRun, Interrupted, Invalid, NoMatch, Terminated, ThresholdFailed, Usage,
        };
        let page = include_str!("../../../docs/exit-codes.md");
        for outcome in
            [Interrupted, Terminated, Usage, NoMatch, BuildFailed, CouldNotRun, ThresholdFailed, Invalid]
        {
            let code = outcome.code().to_string();
            assert!(page.contains(&format!("\n| {code} | ")), "{code}");
            let verdict = serde_json::to_value(outcome.verdict()).unwrap();
            let row = format!("| `{}` | ", verdict.as_str().unwrap());
            let row = page.lines().find(|line| line.starts_with(&row)).unwrap();
            assert!(row.split([' ', ',']).any(|word| word == code), "{code} in {row}");
        }
    }
}
