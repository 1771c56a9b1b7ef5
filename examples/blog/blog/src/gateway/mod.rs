//! The gateway: the blog over HTTP, for which it asks the four services.

mod auth;
mod body;
mod posts;
mod problem;

use axum::{
    Router,
    extract::FromRef,
    routing::{get, post},
    serve::ListenerExt as _,
};
use axum_tracing_opentelemetry::middleware::OtelAxumLayer;
use blog_proto::{
    auth::v1::auth_client::AuthClient, blog::v1::posts_client::PostsClient,
    comment::v1::comments_client::CommentsClient, user::v1::users_client::UsersClient,
};
use clap::Parser;
use tonic::transport::Uri;
use tracing::warn;

use crate::{
    grpc::{self, Peer},
    service::{drain, listen, stop_signal},
};

#[derive(Debug, Parser)]
#[command(version, about = "The blog's gateway: HTTP in front of the services")]
pub struct Args {
    /// Port to listen on, on 127.0.0.1; 0 for any free one
    #[arg(long)]
    port: u16,
    /// Address of the user service
    #[arg(long, value_name = "URL")]
    user: Uri,
    /// Address of the auth service
    #[arg(long, value_name = "URL")]
    auth: Uri,
    /// Address of the blog service
    #[arg(long, value_name = "URL")]
    blog: Uri,
    /// Address of the comment service
    #[arg(long, value_name = "URL")]
    comment: Uri,
}

pub async fn serve(args: Args) -> anyhow::Result<()> {
    let services = Services {
        users: UsersClient::new(grpc::peer(args.user)),
        auth: AuthClient::new(grpc::peer(args.auth)),
        posts: PostsClient::new(grpc::peer(args.blog)),
        comments: CommentsClient::new(grpc::peer(args.comment)),
    };
    let listener = listen(args.port).await?.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            warn!("answers may be held back by the network: {error}");
        }
    });
    let server = axum::serve(listener, router(services)).with_graceful_shutdown(stop_signal());
    Ok(drain(server.into_future()).await?)
}

/// Clones share their connections; a call needs one of its own.
#[derive(Clone, Debug, FromRef)]
struct Services {
    users: UsersClient<Peer>,
    auth: AuthClient<Peer>,
    posts: PostsClient<Peer>,
    comments: CommentsClient<Peer>,
}

fn router(services: Services) -> Router {
    Router::new()
        .route("/auth/register", post(auth::register))
        .route("/auth/login", post(auth::login))
        .route("/auth/refresh", post(auth::refresh))
        .route("/auth/logout", post(auth::logout))
        .route("/users/me", get(auth::me))
        .route("/posts", get(posts::list).post(posts::create))
        .route("/posts/{id}", get(posts::show))
        .route("/posts/{id}/comments", get(posts::list_comments).post(posts::create_comment))
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(OtelAxumLayer::default())
        // Below the layer: whoever waits for readiness starts no traces.
        .route("/healthz", get(async || "ok\n"))
        .with_state(services)
}
