//! The instrumented HTTP client: requests and responses of our own, so that the transport can change without
//! breaking a scenario.

mod batch;
mod compression;
mod cookies;
mod defaults;
mod error;
mod export;
mod files;
mod foreign;
mod jar;
mod measured;
mod multipart;
mod options;
mod request;
mod response;
mod sending;
mod site;
mod status;
mod target;
mod timer;
mod timings;
mod transport;

pub use batch::Batch;
pub use cookies::Cookies;
pub use multipart::Form;
pub use options::HttpOptions;
pub use request::Request;
pub use response::Response;
pub use status::StatusSet;
pub use timings::Timings;

pub(crate) use defaults::RequestDefaults;
pub(crate) use error::RequestError;
pub(crate) use export::ExportClient;
pub(crate) use files::{Files, SharedFiles};
pub(crate) use foreign::reqwest_client;
pub(crate) use jar::Jar;
pub(crate) use site::{Site, Sites};
pub(crate) use target::Target;
pub(crate) use timer::Timer;
pub(crate) use transport::Transport;
