//! The comment service: comments on posts, which it knows only through the blog service.

use std::path::PathBuf;

use blog_proto::{
    blog::v1::{GetRequest, posts_client::PostsClient},
    comment::v1::{
        Comment, CreateRequest, ListRequest, ListResponse,
        comments_server::{Comments, CommentsServer},
    },
};
use clap::Parser;
use sqlx::SqlitePool;
use tonic::{Request, Response, Status, async_trait, transport::Uri};

use crate::{
    db::{self, Statement},
    error::Error,
    grpc::{self, Peer},
};

#[derive(Debug, Parser)]
#[command(version, about = "The blog's comment service")]
pub struct Args {
    /// Port to listen on, on 127.0.0.1; 0 for any free one
    #[arg(long)]
    port: u16,
    /// Database file
    #[arg(long, value_name = "PATH")]
    db: PathBuf,
    /// Address of the blog service
    #[arg(long, value_name = "URL")]
    blog: Uri,
}

pub async fn serve(args: Args) -> anyhow::Result<()> {
    let pool = db::open(&args.db, SCHEMA).await?;
    let posts = PostsClient::new(grpc::peer(args.blog));
    grpc::serve(args.port, CommentsServer::new(CommentService { pool, posts })).await
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS comments (
        id INTEGER PRIMARY KEY,
        post_id INTEGER NOT NULL,
        author_id INTEGER NOT NULL,
        body TEXT NOT NULL,
        created_at INTEGER NOT NULL DEFAULT (unixepoch())
    ) STRICT;
    CREATE INDEX IF NOT EXISTS comments_by_post ON comments (post_id, id);
";

const INSERT: Statement = Statement::new(
    "INSERT",
    "comments",
    "INSERT INTO comments (post_id, author_id, body) VALUES (?, ?, ?) RETURNING id, created_at",
);
const SELECT_OLDEST: Statement = Statement::new(
    "SELECT",
    "comments",
    "SELECT id, author_id, body, created_at FROM comments WHERE post_id = ? ORDER BY id LIMIT ?",
);

#[derive(Debug)]
struct CommentService {
    pool: SqlitePool,
    posts: PostsClient<Peer>,
}

impl CommentService {
    /// Fails as the blog service does where there is no such post.
    async fn require_post(&self, id: i64) -> Result<(), Error> {
        self.posts.clone().get(GetRequest { id }).await?;
        Ok(())
    }

    async fn insert(&self, new: CreateRequest) -> Result<Comment, Error> {
        let CreateRequest { post_id, author_id, body } = new;
        if body.trim().is_empty() {
            return Err(Error::Invalid("a comment needs a text"));
        }
        self.require_post(post_id).await?;
        let query = sqlx::query_as(INSERT.text).bind(post_id).bind(author_id).bind(&body);
        let (id, created_at) = INSERT.trace(query.fetch_one(&self.pool)).await?;
        Ok(Comment { id, post_id, author_id, body, created_at })
    }

    async fn oldest(&self, post_id: i64, limit: u32) -> Result<Vec<Comment>, Error> {
        self.require_post(post_id).await?;
        let query = sqlx::query_as(SELECT_OLDEST.text).bind(post_id).bind(limit);
        let rows: Vec<(i64, i64, String, i64)> = SELECT_OLDEST.trace(query.fetch_all(&self.pool)).await?;
        let comment =
            |(id, author_id, body, created_at)| Comment { id, post_id, author_id, body, created_at };
        Ok(rows.into_iter().map(comment).collect())
    }
}

#[async_trait]
impl Comments for CommentService {
    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<Comment>, Status> {
        Ok(Response::new(self.insert(request.into_inner()).await?))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let ListRequest { post_id, limit } = request.into_inner();
        let comments = self.oldest(post_id, limit).await?;
        Ok(Response::new(ListResponse { comments }))
    }
}
