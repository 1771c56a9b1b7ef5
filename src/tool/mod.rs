//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

#[cfg_attr(not(test), expect(dead_code, reason = "the commands that use it are wired step by step"))]
pub(crate) mod receive;
