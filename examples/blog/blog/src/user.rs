//! The user service: accounts. It keeps password hashes and never sees a password.

use std::path::PathBuf;

use blog_proto::user::v1::{
    CreateRequest, Credentials, FindCredentialsRequest, GetRequest, User,
    users_server::{Users, UsersServer},
};
use clap::Parser;
use sqlx::SqlitePool;
use tonic::{Request, Response, Status, async_trait};

use crate::{
    db::{self, Statement},
    error::Error,
    grpc,
};

#[derive(Debug, Parser)]
#[command(version, about = "The blog's user service")]
pub struct Args {
    /// Port to listen on, on 127.0.0.1; 0 for any free one
    #[arg(long)]
    port: u16,
    /// Database file
    #[arg(long, value_name = "PATH")]
    db: PathBuf,
}

pub async fn serve(args: Args) -> anyhow::Result<()> {
    let pool = db::open(&args.db, SCHEMA).await?;
    grpc::serve(args.port, UsersServer::new(UserService { pool })).await
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS users (
        id INTEGER PRIMARY KEY,
        email TEXT NOT NULL UNIQUE,
        password_hash TEXT NOT NULL,
        created_at INTEGER NOT NULL DEFAULT (unixepoch())
    ) STRICT;
";

const INSERT: Statement = Statement::new(
    "INSERT",
    "users",
    "INSERT INTO users (email, password_hash) VALUES (?, ?) RETURNING id, created_at",
);
const SELECT: Statement =
    Statement::new("SELECT", "users", "SELECT email, created_at FROM users WHERE id = ?");
const SELECT_CREDENTIALS: Statement =
    Statement::new("SELECT", "users", "SELECT id, password_hash FROM users WHERE email = ?");

#[derive(Debug)]
struct UserService {
    pool: SqlitePool,
}

impl UserService {
    async fn insert(&self, email: &str, password_hash: &str) -> Result<(i64, i64), Error> {
        let query = sqlx::query_as(INSERT.text).bind(email).bind(password_hash);
        INSERT.trace(query.fetch_one(&self.pool)).await.map_err(|error| match &error {
            sqlx::Error::Database(cause) if cause.is_unique_violation() => {
                Error::Taken("this e-mail address")
            }
            _ => error.into(),
        })
    }

    async fn find(&self, id: i64) -> Result<(String, i64), Error> {
        let query = sqlx::query_as(SELECT.text).bind(id);
        SELECT.trace(query.fetch_optional(&self.pool)).await?.ok_or(Error::NotFound("user"))
    }

    async fn find_credentials(&self, email: &str) -> Result<(i64, String), Error> {
        let query = sqlx::query_as(SELECT_CREDENTIALS.text).bind(email);
        SELECT_CREDENTIALS.trace(query.fetch_optional(&self.pool)).await?.ok_or(Error::NotFound("user"))
    }
}

#[async_trait]
impl Users for UserService {
    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<User>, Status> {
        let CreateRequest { email, password_hash } = request.into_inner();
        let (id, created_at) = self.insert(&email, &password_hash).await?;
        Ok(Response::new(User { id, email, created_at }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<User>, Status> {
        let GetRequest { id } = request.into_inner();
        let (email, created_at) = self.find(id).await?;
        Ok(Response::new(User { id, email, created_at }))
    }

    async fn find_credentials(
        &self,
        request: Request<FindCredentialsRequest>,
    ) -> Result<Response<Credentials>, Status> {
        let (user_id, password_hash) = self.find_credentials(&request.into_inner().email).await?;
        Ok(Response::new(Credentials { user_id, password_hash }))
    }
}
