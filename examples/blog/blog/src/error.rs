//! How a gRPC service fails, and which status says so.

use tonic::Status;
use tracing::error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Invalid(&'static str),
    #[error("{0}")]
    Unauthenticated(&'static str),
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("{0} is taken")]
    Taken(&'static str),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("the password could not be hashed")]
    Hash(#[from] bcrypt::BcryptError),
    #[error("the token could not be signed")]
    Sign(#[from] jwt_compact::CreationError),
    #[error("no random numbers")]
    Random(#[from] getrandom::Error),
    #[error("the work was cut off")]
    CutOff(#[from] tokio::task::JoinError),
    /// What another service answered is passed on.
    #[error(transparent)]
    Peer(#[from] Status),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Invalid(_) => Self::invalid_argument(message),
            Error::Unauthenticated(_) => Self::unauthenticated(message),
            Error::NotFound(_) => Self::not_found(message),
            Error::Taken(_) => Self::already_exists(message),
            Error::Peer(status) => status,
            Error::Database(_) | Error::Hash(_) | Error::Sign(_) | Error::Random(_) | Error::CutOff(_) => {
                error!("{:#}", anyhow::Error::new(error));
                Self::internal(message)
            }
        }
    }
}
