//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod build;
pub(crate) mod cargo;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod config;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod discover;
#[cfg(test)]
mod fixture;
#[expect(dead_code, reason = "filled in step by step")]
pub(crate) mod drive;
pub(crate) mod report;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod results;
pub(crate) mod cli;
#[cfg_attr(not(test), expect(dead_code, reason = "filled in step by step"))]
pub(crate) mod services;
#[cfg_attr(not(test), expect(dead_code, reason = "the run command that calls it is being written"))]
pub(crate) mod analyse;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands that use it are wired step by step"))]
pub(crate) mod receive;
