//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.
