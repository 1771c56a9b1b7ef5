//! The only place that touches clocks, the environment, files, processes, signals and git.

pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod env;
#[cfg(feature = "cli")]
pub(crate) mod family;
pub(crate) mod file;
#[cfg(feature = "cli")]
pub(crate) mod fs;
#[cfg(feature = "cli")]
pub(crate) mod git;
pub(crate) mod limits;
#[cfg(feature = "cli")]
pub(crate) mod proc;
pub(crate) mod process;
pub(crate) mod signal;
