//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

#[expect(dead_code, reason = "filled in step by step")]
pub(crate) mod drive;
pub(crate) mod report;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod results;
