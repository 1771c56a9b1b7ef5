//! What can go wrong with a scenario process.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::model::duration;
use crate::model::event::Failure;
use crate::protocol::FrameError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    #[error("cannot open a socket for the scenario processes")]
    Socket(#[source] io::Error),
    #[error("cannot start {}", executable.display())]
    Spawn { executable: PathBuf, source: io::Error },
    #[error(
        "{target} ended ({status}) without a word; does its target have `harness = false`, and does its main call loadtest::main?"
    )]
    NoHello { target: String, status: ExitStatus },
    #[error("{target} said nothing within {}", duration::format(*.within))]
    Silent { target: String, within: Duration },
    #[error(
        "{target} is built with version {theirs} of the library, which speaks protocol {their_protocol}; \
         this is cargo-loadtest {ours}, which speaks protocol {our_protocol}"
    )]
    Version { target: String, theirs: String, their_protocol: u32, ours: &'static str, our_protocol: u32 },
    #[error("{target} sent what cannot be understood")]
    Frame { target: String, source: FrameError },
    #[error("{target}: the connection to it broke")]
    Connection { target: String, source: io::Error },
    #[error("{target} ended ({status}) before its work did")]
    Died { target: String, status: ExitStatus },
    #[error("{target}: {}", failure.message)]
    Failed { target: String, failure: Failure },
}
