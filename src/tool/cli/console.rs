//! What the user reads: the report on stdout; status lines, warnings and errors on stderr. A reader that has gone away,
//! such as `head`, is no error.

use std::io::{IsTerminal as _, Write as _};

use super::args::{CargoArgs, ColorWhen};
use crate::model::event::Warning;
use crate::model::plain::plain;
use crate::sys::env;
use crate::tool::report::Style;
use crate::tool::report::progress::Live;

/// Cargo's width for the verb of a status line.
const VERB: usize = 12;

/// Where a command writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Console {
    quiet: bool,
    stdout: Style,
    stderr: Style,
    /// stderr can redraw a line.
    redraws: bool,
}

impl Console {
    pub(super) fn new(args: &CargoArgs) -> Self {
        let style = |terminal: bool| match args.color {
            ColorWhen::Always => Style::Colour,
            ColorWhen::Auto if terminal && env::var("NO_COLOR").is_none_or(|value| value.is_empty()) => {
                Style::Colour
            }
            ColorWhen::Auto | ColorWhen::Never => Style::Plain,
        };
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let dumb = env::var("TERM").is_some_and(|term| term == "dumb");
        Self {
            quiet: args.quiet,
            stdout: style(out),
            stderr: style(err),
            redraws: err && !dumb && !args.quiet,
        }
    }

    /// The style of what goes to stdout.
    pub(super) fn style(self) -> Style {
        self.stdout
    }

    /// A status line as cargo has them, on stderr.
    pub(super) fn status(self, verb: &str, text: &str) {
        if !self.quiet {
            let verb = self.stderr.green(&self.stderr.bold(&format!("{verb:>VERB$}")));
            tell(&format!("{verb} {}", plain(text)));
        }
    }

    /// A line of progress, on stderr.
    pub(super) fn progress_line(self, line: &str) {
        if !self.quiet {
            tell(line);
        }
    }

    /// How progress is shown.
    pub(super) fn live(self) -> Live {
        if self.redraws { Live::on_terminal(self.stderr) } else { Live::as_lines() }
    }

    pub(super) fn warning(self, warning: &Warning) {
        tell(&format!(
            "{}: {}: {}",
            self.stderr.bold("warning"),
            plain(&warning.code),
            plain(&warning.message)
        ));
    }

    pub(super) fn error(self, message: &str, hint: Option<&str>) {
        let message: Vec<_> = message.lines().map(plain).collect();
        tell(&format!("{}: {}", self.stderr.red(&self.stderr.bold("error")), message.join("\n")));
        if let Some(hint) = hint {
            tell(&format!("  {}: {hint}", self.stderr.bold("help")));
        }
    }

    /// Text of a report or listing, on stdout, as it is.
    #[expect(clippy::unused_self, reason = "who writes has a console")]
    pub(super) fn out(self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

/// One line on stderr.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
