//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

pub(crate) mod cli;
#[cfg_attr(not(test), expect(dead_code, reason = "filled in step by step"))]
pub(crate) mod services;
