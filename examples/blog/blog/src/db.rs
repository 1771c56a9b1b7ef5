//! SQLite: opening a service's database, and one client span a statement.

use std::{path::Path, time::Duration};

use sqlx::{
    ConnectOptions as _, SqlitePool,
    error::DatabaseError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tracing::{Instrument as _, Span, field::Empty, info_span};

/// Opens the database, which is made where it is missing, and applies `schema`, which must hold on any
/// start: `CREATE … IF NOT EXISTS`.
pub(crate) async fn open(path: &Path, schema: &'static str) -> sqlx::Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        // Readers beside a writer, and no disk flush at each commit: a power cut may lose the last
        // commits, but nothing breaks.
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(4)
        // A connection to a file does not go stale, and the test would double each statement's trips to
        // the driver's thread.
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    sqlx::raw_sql(schema).execute(&pool).await?;
    Ok(pool)
}

/// A statement with what its span says about it. The text holds placeholders only, never values.
#[derive(Debug)]
pub(crate) struct Statement {
    operation: &'static str,
    table: &'static str,
    pub(crate) text: &'static str,
}

impl Statement {
    pub(crate) const fn new(operation: &'static str, table: &'static str, text: &'static str) -> Self {
        Self { operation, table, text }
    }

    /// Runs the query made from this statement in a span of its own, the wait for a connection included.
    pub(crate) async fn trace<T>(&self, query: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        let span = self.span();
        let result = query.instrument(span.clone()).await;
        if let Err(error) = &result {
            span.record("otel.status_code", "ERROR");
            let code = error.as_database_error().and_then(DatabaseError::code);
            span.record("error.type", code.as_deref().unwrap_or("_OTHER"));
        }
        result
    }

    fn span(&self) -> Span {
        info_span!(
            "query",
            otel.name = format!("{} {}", self.operation, self.table),
            otel.kind = "client",
            otel.status_code = Empty,
            "error.type" = Empty,
            db.system.name = "sqlite",
            db.operation.name = self.operation,
            db.collection.name = self.table,
            db.query.text = self.text,
        )
    }
}
