//! Posts and their comments.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use blog_api::{Comment, NewComment, NewPost, Post};
use blog_proto::{
    blog::v1::{self as blog, posts_client::PostsClient},
    comment::v1::{self as comment, comments_client::CommentsClient},
};

use super::{auth::CurrentUser, body::Body, problem::Problem};
use crate::grpc::Peer;

const POSTS_LISTED: u32 = 50;
const COMMENTS_LISTED: u32 = 100;

pub(super) async fn create(
    State(mut posts): State<PostsClient<Peer>>,
    author: CurrentUser,
    Body(NewPost { title, body }): Body<NewPost>,
) -> Result<(StatusCode, Json<Post>), Problem> {
    let request = blog::CreateRequest { author_id: author.id, title, body };
    let post = posts.create(request).await?.into_inner();
    Ok((StatusCode::CREATED, Json(to_post(post))))
}

pub(super) async fn list(State(mut posts): State<PostsClient<Peer>>) -> Result<Json<Vec<Post>>, Problem> {
    let list = posts.list(blog::ListRequest { limit: POSTS_LISTED }).await?.into_inner();
    Ok(Json(list.posts.into_iter().map(to_post).collect()))
}

pub(super) async fn show(
    State(mut posts): State<PostsClient<Peer>>,
    Path(id): Path<String>,
) -> Result<Json<Post>, Problem> {
    let post = posts.get(blog::GetRequest { id: post_id(&id)? }).await?.into_inner();
    Ok(Json(to_post(post)))
}

pub(super) async fn create_comment(
    State(mut comments): State<CommentsClient<Peer>>,
    Path(id): Path<String>,
    author: CurrentUser,
    Body(NewComment { body }): Body<NewComment>,
) -> Result<(StatusCode, Json<Comment>), Problem> {
    let request = comment::CreateRequest { post_id: post_id(&id)?, author_id: author.id, body };
    let comment = comments.create(request).await?.into_inner();
    Ok((StatusCode::CREATED, Json(to_comment(comment))))
}

pub(super) async fn list_comments(
    State(mut comments): State<CommentsClient<Peer>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Comment>>, Problem> {
    let request = comment::ListRequest { post_id: post_id(&id)?, limit: COMMENTS_LISTED };
    let list = comments.list(request).await?.into_inner();
    Ok(Json(list.comments.into_iter().map(to_comment).collect()))
}

/// There is no post by a name that is not a number.
fn post_id(id: &str) -> Result<i64, Problem> {
    id.parse().map_err(|_| Problem::new(StatusCode::NOT_FOUND, "no such post"))
}

fn to_post(post: blog::Post) -> Post {
    let blog::Post { id, author_id, title, body, created_at } = post;
    Post { id, author_id, title, body, created_at }
}

fn to_comment(comment: comment::Comment) -> Comment {
    let comment::Comment { id, post_id, author_id, body, created_at } = comment;
    Comment { id, post_id, author_id, body, created_at }
}
