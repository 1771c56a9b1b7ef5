//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

pub(crate) mod cli;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod services;
