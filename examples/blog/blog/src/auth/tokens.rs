//! Signed tokens (JWT, HS256): short ones for access, long ones to get the next pair.

use anyhow::ensure;
use chrono::{DateTime, Utc};
use jwt_compact::{
    AlgorithmExt as _, Claims, Header, TimeOptions, UntrustedToken,
    alg::{Hs256, Hs256Key},
};
use serde::{Deserialize, Serialize};

use crate::error::Error;

const ACCESS_LIFETIME: chrono::Duration = chrono::Duration::minutes(15);
const REFRESH_LIFETIME: chrono::Duration = chrono::Duration::days(7);
const MIN_KEY_BYTES: usize = 32;

const REFUSED: Error = Error::Unauthenticated("not a good token");

/// What a token says. The tag keeps a refresh token from giving access, and the other way round.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "use", rename_all = "snake_case")]
enum Grant {
    Access {
        sub: i64,
    },
    Refresh {
        sub: i64,
        #[serde(rename = "jti")]
        id: String,
        #[serde(rename = "sid")]
        session: String,
    },
}

/// A refresh token, as it is remembered.
#[derive(Debug)]
pub(super) struct RefreshToken {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) user_id: i64,
    /// Seconds since the Unix epoch.
    pub(super) expires_at: i64,
}

#[derive(Debug)]
pub(super) struct Tokens {
    key: Hs256Key,
    clock: TimeOptions,
}

impl Tokens {
    pub(super) fn new(secret: Option<&str>) -> anyhow::Result<Self> {
        let mut random = [0; MIN_KEY_BYTES];
        let key = if let Some(secret) = secret {
            secret.as_bytes()
        } else {
            getrandom::fill(&mut random)?;
            &random
        };
        ensure!(key.len() >= MIN_KEY_BYTES, "JWT_SECRET has fewer than {MIN_KEY_BYTES} bytes");
        // One machine, one clock: no leeway.
        Ok(Self { key: Hs256Key::new(key), clock: TimeOptions::from_leeway(chrono::Duration::zero()) })
    }

    pub(super) fn issue_access(&self, user_id: i64) -> Result<String, Error> {
        Ok(self.sign(Grant::Access { sub: user_id }, ACCESS_LIFETIME)?.0)
    }

    pub(super) fn issue_refresh(
        &self,
        user_id: i64,
        session: String,
    ) -> Result<(String, RefreshToken), Error> {
        let id = random_id()?;
        let grant = Grant::Refresh { sub: user_id, id: id.clone(), session: session.clone() };
        let (token, expires) = self.sign(grant, REFRESH_LIFETIME)?;
        Ok((token, RefreshToken { id, session, user_id, expires_at: expires.timestamp() }))
    }

    /// The user that an access token names.
    pub(super) fn verify_access(&self, token: &str) -> Result<i64, Error> {
        match self.verify(token)? {
            (Grant::Access { sub }, _) => Ok(sub),
            (Grant::Refresh { .. }, _) => Err(REFUSED),
        }
    }

    /// A refresh token that is signed and not expired; it may have been used.
    pub(super) fn verify_refresh(&self, token: &str) -> Result<RefreshToken, Error> {
        match self.verify(token)? {
            (Grant::Refresh { sub, id, session }, expires) => {
                Ok(RefreshToken { id, session, user_id: sub, expires_at: expires.timestamp() })
            }
            (Grant::Access { .. }, _) => Err(REFUSED),
        }
    }

    fn sign(&self, grant: Grant, lifetime: chrono::Duration) -> Result<(String, DateTime<Utc>), Error> {
        let expires = (self.clock.clock_fn)() + lifetime;
        let mut claims = Claims::new(grant);
        claims.expiration = Some(expires);
        Ok((Hs256.token(&Header::empty(), &claims, &self.key)?, expires))
    }

    fn verify(&self, token: &str) -> Result<(Grant, DateTime<Utc>), Error> {
        let token = UntrustedToken::new(token).map_err(|_| REFUSED)?;
        let token = Hs256.validator::<Grant>(&self.key).validate(&token).map_err(|_| REFUSED)?;
        let claims = token.claims().validate_expiration(&self.clock).map_err(|_| REFUSED)?;
        let expires = claims.expiration.ok_or(REFUSED)?;
        Ok((token.into_parts().1.custom, expires))
    }
}

/// 128 random bits, in hexadecimal.
pub(super) fn random_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens::new(None).unwrap()
    }

    #[test]
    fn a_token_gives_back_what_it_was_issued_for() {
        let tokens = tokens();
        let access = tokens.issue_access(7).unwrap();
        assert_eq!(tokens.verify_access(&access).unwrap(), 7);

        let (token, issued) = tokens.issue_refresh(7, "session".into()).unwrap();
        let verified = tokens.verify_refresh(&token).unwrap();
        assert_eq!((verified.id, verified.user_id), (issued.id, 7));
        assert_eq!((verified.session, verified.expires_at), ("session".into(), issued.expires_at));
    }

    #[test]
    fn a_token_is_good_for_its_own_use_only() {
        let tokens = tokens();
        let access = tokens.issue_access(7).unwrap();
        let (refresh, _) = tokens.issue_refresh(7, "session".into()).unwrap();
        assert!(tokens.verify_refresh(&access).is_err());
        assert!(tokens.verify_access(&refresh).is_err());
    }

    #[test]
    fn a_token_signed_with_another_key_is_refused() {
        let access = tokens().issue_access(7).unwrap();
        assert!(tokens().verify_access(&access).is_err());
    }

    #[test]
    fn a_changed_token_is_refused() {
        let tokens = tokens();
        let access = tokens.issue_access(7).unwrap();
        let other = tokens.issue_access(8).unwrap();
        let signature = access.rsplit_once('.').unwrap().1;
        let forged = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
        for token in [forged.as_str(), &access[1..], "", "a.b.c"] {
            assert!(tokens.verify_access(token).is_err(), "{token}");
        }
    }

    #[test]
    fn an_expired_token_is_refused() {
        let mut tokens = tokens();
        let access = tokens.issue_access(7).unwrap();
        tokens.clock = TimeOptions::new(chrono::Duration::zero(), || Utc::now() + ACCESS_LIFETIME * 2);
        assert!(tokens.verify_access(&access).is_err());
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(Tokens::new(Some("short")).is_err());
    }
}
