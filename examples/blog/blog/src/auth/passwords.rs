//! Password hashes. bcrypt keeps a CPU busy for as long as it takes, so it runs on the blocking pool,
//! in a span that begins where the request starts to wait for it.

use bcrypt::BcryptError;
use tokio::task::spawn_blocking;
use tracing::{Instrument as _, Span, info_span};

use crate::error::Error;

const MIN_CHARS: usize = 8;
/// What bcrypt can take in.
const MAX_BYTES: usize = 72;

#[derive(Debug)]
pub(super) struct Passwords {
    cost: u32,
    /// Verified against where there is no account, which must take as long as where there is one.
    decoy: String,
}

impl Passwords {
    pub(super) async fn new(cost: u32) -> Result<Self, Error> {
        let decoy = blocking(Span::none(), move || bcrypt::hash([], cost)).await?;
        Ok(Self { cost, decoy })
    }

    /// Hashes a new password, once it is one that may be chosen.
    pub(super) async fn hash(&self, password: String) -> Result<String, Error> {
        if password.chars().count() < MIN_CHARS {
            return Err(Error::Invalid("a password has at least 8 characters"));
        }
        if password.len() > MAX_BYTES {
            return Err(Error::Invalid("a password has at most 72 bytes"));
        }
        let cost = self.cost;
        blocking(info_span!("bcrypt.hash", bcrypt.cost = cost), move || bcrypt::hash(password, cost)).await
    }

    /// Whether the password is that of the hash; never, but in the same time, without a hash.
    pub(super) async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Error> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.decoy.clone());
        // The cost is the hash's own, which may be from before a change.
        let cost = hash.split('$').nth(2).and_then(|cost| cost.parse::<u32>().ok());
        let right = blocking(info_span!("bcrypt.verify", bcrypt.cost = cost), move || {
            bcrypt::verify(password, &hash)
        });
        Ok(right.await? && known)
    }
}

/// The span stays on this side of the pool, so that it covers the wait for a thread as well.
async fn blocking<T: Send + 'static>(
    span: Span,
    work: impl FnOnce() -> Result<T, BcryptError> + Send + 'static,
) -> Result<T, Error> {
    Ok(spawn_blocking(work).instrument(span).await??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_verified_against_its_own_hash_only() {
        let passwords = Passwords::new(4).await.unwrap();
        let hash = passwords.hash("correct horse".into()).await.unwrap();
        assert!(passwords.verify("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!passwords.verify("correct house".into(), Some(hash)).await.unwrap());
    }

    #[tokio::test]
    async fn the_decoy_lets_nobody_in() {
        let passwords = Passwords::new(4).await.unwrap();
        assert!(!passwords.verify(String::new(), None).await.unwrap());
    }

    #[tokio::test]
    async fn passwords_that_are_too_short_or_too_long_are_refused() {
        let passwords = Passwords::new(4).await.unwrap();
        for (password, allowed) in [
            ("ééééééé".to_owned(), false),
            ("éééééééé".to_owned(), true),
            ("p".repeat(72), true),
            ("p".repeat(73), false),
        ] {
            let hashed = passwords.hash(password.clone()).await;
            assert_eq!(hashed.is_ok(), allowed, "{password}: {hashed:?}");
        }
    }
}
