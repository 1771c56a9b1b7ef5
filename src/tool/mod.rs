//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

#[cfg_attr(not(test), expect(dead_code, reason = "the run command that calls it is being written"))]
pub(crate) mod analyse;
