//! The half that is the cargo subcommand: it finds, builds, starts, watches, explains and reports.

pub(crate) mod analyse;
pub(crate) mod build;
pub(crate) mod cargo;
pub(crate) mod cli;
pub(crate) mod config;
pub(crate) mod discover;
pub(crate) mod drive;
#[cfg(test)]
mod fixture;
pub(crate) mod receive;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod scaffold;
pub(crate) mod services;
pub(crate) mod usage;
