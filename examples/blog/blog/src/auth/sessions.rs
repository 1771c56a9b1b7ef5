//! The refresh tokens there are. Those that follow each other from one login on are a session.

use std::path::Path;

use sqlx::SqlitePool;

use super::tokens::RefreshToken;
use crate::{
    db::{self, Statement},
    error::Error,
};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS refresh_tokens (
        id TEXT PRIMARY KEY,
        session TEXT NOT NULL,
        user_id INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        used INTEGER NOT NULL DEFAULT FALSE
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS refresh_tokens_by_session ON refresh_tokens (session);
    DELETE FROM refresh_tokens WHERE expires_at < unixepoch();
";

const INSERT: Statement = Statement::new(
    "INSERT",
    "refresh_tokens",
    "INSERT INTO refresh_tokens (id, session, user_id, expires_at) VALUES (?, ?, ?, ?)",
);
const USE_UP: Statement = Statement::new(
    "UPDATE",
    "refresh_tokens",
    "UPDATE refresh_tokens SET used = TRUE WHERE id = ? AND NOT used",
);
const END_SESSION: Statement = Statement::new(
    "UPDATE",
    "refresh_tokens",
    "UPDATE refresh_tokens SET used = TRUE WHERE session = ? AND NOT used",
);

#[derive(Debug)]
pub(super) struct Sessions {
    pool: SqlitePool,
}

impl Sessions {
    pub(super) async fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { pool: db::open(path, SCHEMA).await? })
    }

    pub(super) async fn insert(&self, token: &RefreshToken) -> Result<(), Error> {
        let query = sqlx::query(INSERT.text)
            .bind(&token.id)
            .bind(&token.session)
            .bind(token.user_id)
            .bind(token.expires_at);
        INSERT.trace(query.execute(&self.pool)).await?;
        Ok(())
    }

    /// Whether the token was still good, which it is for one caller only.
    pub(super) async fn use_up(&self, id: &str) -> Result<bool, Error> {
        let query = sqlx::query(USE_UP.text).bind(id);
        Ok(USE_UP.trace(query.execute(&self.pool)).await?.rows_affected() == 1)
    }

    /// Makes the session's tokens worthless, and says how many were not so already.
    pub(super) async fn end(&self, session: &str) -> Result<u64, Error> {
        let query = sqlx::query(END_SESSION.text).bind(session);
        Ok(END_SESSION.trace(query.execute(&self.pool)).await?.rows_affected())
    }
}
