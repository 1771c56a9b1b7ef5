//! The guard: the tool's own program, run again as the parent of all services. Whatever becomes of the tool, the guard
//! ends them when its input closes; whatever becomes of the guard, the tool ends them when the guard's output closes.
//!
//! This file is what the two say to each other, one JSON value a line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::secret::Secrets;
use crate::sys::process;

mod client;
mod server;

pub(crate) use client::{Guard, State};
pub(crate) use server::main;

/// The argument that makes the tool a guard.
pub(crate) const ARGUMENT: &str = "__guard";

/// The command line that starts a guard.
pub(crate) fn command_line() -> io::Result<Vec<OsString>> {
    Ok(vec![process::own_program()?.into(), ARGUMENT.into()])
}

/// From the tool to the guard. The end of the input means [`Request::End`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Start(Start),
    /// End all services, then the guard itself.
    End,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The complete environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) dir: PathBuf,
    /// The file that takes both output streams.
    pub(crate) log: PathBuf,
    /// Report the first line of output that contains this.
    pub(crate) wanted_line: Option<String>,
    /// Values that must not get into the log.
    pub(crate) secrets: Secrets,
}

/// From the guard to the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The first word: from now on the guard outlives interrupts and adopts orphans.
    Ready,
    Started {
        name: String,
        pid: u32,
    },
    NotStarted {
        name: String,
        error: String,
    },
    LineSeen {
        name: String,
    },
    /// A service ended without being asked to.
    Ended {
        name: String,
        status: String,
    },
    /// The last word: all are gone but these.
    AllEnded {
        left: Vec<u32>,
    },
}
