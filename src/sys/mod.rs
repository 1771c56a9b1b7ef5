//! The only place that touches clocks, the environment, files, processes, signals and git.

pub(crate) mod clock;
pub(crate) mod env;
#[cfg(feature = "cli")]
pub(crate) mod fs;
pub(crate) mod process;
