//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

#[expect(unused_imports, reason = "filled in step by step")]
#[cfg_attr(not(test), expect(dead_code, reason = "filled in step by step"))]
pub(crate) mod build;
#[cfg_attr(not(test), expect(dead_code, reason = "filled in step by step"))]
pub(crate) mod cargo;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "filled in step by step"))]
pub(crate) mod config;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "filled in step by step"))]
pub(crate) mod discover;
#[cfg(test)]
mod fixture;
#[expect(dead_code, reason = "filled in step by step")]
pub(crate) mod report;
#[expect(dead_code, unused_imports, reason = "filled in step by step")]
pub(crate) mod results;
#[cfg_attr(not(test), expect(dead_code, reason = "filled in step by step"))]
pub(crate) mod scaffold;
