//! The blog service: posts.

use std::path::PathBuf;

use blog_proto::blog::v1::{
    CreateRequest, GetRequest, ListRequest, ListResponse, Post,
    posts_server::{Posts, PostsServer},
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
#[command(version, about = "The blog's blog service: posts")]
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
    grpc::serve(args.port, PostsServer::new(PostService { pool })).await
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS posts (
        id INTEGER PRIMARY KEY,
        author_id INTEGER NOT NULL,
        title TEXT NOT NULL,
        body TEXT NOT NULL,
        created_at INTEGER NOT NULL DEFAULT (unixepoch())
    ) STRICT;
";

const INSERT: Statement = Statement::new(
    "INSERT",
    "posts",
    "INSERT INTO posts (author_id, title, body) VALUES (?, ?, ?) RETURNING id, created_at",
);
const SELECT: Statement = Statement::new(
    "SELECT",
    "posts",
    "SELECT id, author_id, title, body, created_at FROM posts WHERE id = ?",
);
const SELECT_NEWEST: Statement = Statement::new(
    "SELECT",
    "posts",
    "SELECT id, author_id, title, body, created_at FROM posts ORDER BY id DESC LIMIT ?",
);

type Row = (i64, i64, String, String, i64);

fn post((id, author_id, title, body, created_at): Row) -> Post {
    Post { id, author_id, title, body, created_at }
}

#[derive(Debug)]
struct PostService {
    pool: SqlitePool,
}

impl PostService {
    async fn insert(&self, new: CreateRequest) -> Result<Post, Error> {
        let CreateRequest { author_id, title, body } = new;
        if title.trim().is_empty() {
            return Err(Error::Invalid("a post needs a title"));
        }
        let query = sqlx::query_as(INSERT.text).bind(author_id).bind(&title).bind(&body);
        let (id, created_at) = INSERT.trace(query.fetch_one(&self.pool)).await?;
        Ok(Post { id, author_id, title, body, created_at })
    }

    async fn find(&self, id: i64) -> Result<Post, Error> {
        let query = sqlx::query_as(SELECT.text).bind(id);
        SELECT.trace(query.fetch_optional(&self.pool)).await?.map(post).ok_or(Error::NotFound("post"))
    }

    async fn newest(&self, limit: u32) -> Result<Vec<Post>, Error> {
        let query = sqlx::query_as(SELECT_NEWEST.text).bind(limit);
        Ok(SELECT_NEWEST.trace(query.fetch_all(&self.pool)).await?.into_iter().map(post).collect())
    }
}

#[async_trait]
impl Posts for PostService {
    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<Post>, Status> {
        Ok(Response::new(self.insert(request.into_inner()).await?))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Post>, Status> {
        Ok(Response::new(self.find(request.into_inner().id).await?))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let posts = self.newest(request.into_inner().limit).await?;
        Ok(Response::new(ListResponse { posts }))
    }
}
