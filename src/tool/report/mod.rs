//! Reports: results in, text and bytes out. Nothing here reads a file, draws load or calls back into a run.
//!
//! - [`text::report`]: the page for people.
//! - [`json`]: `summary.json` and the messages of `--message-format json`.
//! - [`progress`]: the line that tells how a run is going.

mod attribution;
pub(crate) mod json;
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
