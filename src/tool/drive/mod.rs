//! One scenario process: started, recognised by its token, instructed, listened to, stopped, and gone at the end.

mod error;
mod process;

pub(crate) use error::DriveError;
pub(crate) use process::{Launch, list, run};
