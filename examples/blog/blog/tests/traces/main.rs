//! The five services as they are run, and the traces they leave: every request's spans must hang
//! together from the caller's own span down to the hash and the statement.

#![cfg(unix)]

mod client;
mod collector;
mod services;

use std::collections::HashMap;

use anyhow::Result;
use blog_api::{Comment, Credentials, NewComment, NewPost, Post, RefreshToken, Tokens, User};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use client::{Client, Sent};
use collector::{Collector, Received};
use services::Blog;

const INTERNAL: SpanKind = SpanKind::Internal;
const SERVER: SpanKind = SpanKind::Server;
const CLIENT: SpanKind = SpanKind::Client;

type Step = (&'static str, SpanKind, &'static str);

#[tokio::test(flavor = "multi_thread")]
async fn traces_are_whole_over_grpc() -> Result<()> {
    traces_are_whole("grpc").await
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_are_whole_over_http() -> Result<()> {
    traces_are_whole("http/protobuf").await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_endpoint_the_blog_works_and_exports_nothing() -> Result<()> {
    let blog = Blog::start(&[])?;
    let mut client = Client::new(blog.gateway());
    sign_up_and_out(&mut client).await?;
    let logs = blog.stop()?;
    assert!(!logs.contains("ERROR") && !logs.contains("WARN"), "{logs}");
    Ok(())
}

async fn traces_are_whole(protocol: &str) -> Result<()> {
    let collector = Collector::start().await?;
    let blog = Blog::start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        // Only the flush at the end is early enough for this test.
        ("OTEL_BSP_SCHEDULE_DELAY", "60000"),
    ])?;
    let mut client = Client::new(blog.gateway());
    sign_up_and_out(&mut client).await?;
    refusals(&mut client).await?;
    posts_and_comments(&mut client).await?;
    let logs = blog.stop()?;
    assert!(!logs.contains("ERROR"), "{logs}");

    let spans = collector.into_spans();
    check_trees(&client.sent, &spans);
    check_paths(&client.sent, &spans);
    check_statements(&spans);
    Ok(())
}

fn credentials(email: &str) -> Credentials {
    Credentials { email: email.into(), password: "correct horse".into() }
}

async fn sign_up_and_out(client: &mut Client) -> Result<()> {
    let me = credentials("me@example.com");
    let user: User = client.post("/auth/register", &me).await?.expect(201).json()?;
    assert_eq!(user.email, me.email);

    let first: Tokens = client.post("/auth/login", &me).await?.expect(200).json()?;
    assert_eq!(first.user_id, user.id);
    let again: User = client.get_as(&first.access, "/users/me").await?.expect(200).json()?;
    assert_eq!(again, user);

    let second = RefreshToken { refresh: first.refresh };
    let second: Tokens = client.post("/auth/refresh", &second).await?.expect(200).json()?;
    let logout = RefreshToken { refresh: second.refresh };
    client.post("/auth/logout", &logout).await?.expect(204);
    client.post("/auth/refresh", &logout).await?.expect(401);
    Ok(())
}

async fn refusals(client: &mut Client) -> Result<()> {
    let me = credentials("me@example.com");
    client.post("/auth/register", &me).await?.expect(409);
    client.post("/auth/register", &credentials("nobody")).await?.expect(400);
    client.post("/auth/register", &"not credentials").await?.expect(400);
    client.post("/auth/login", &credentials("nobody@example.com")).await?.expect(401);
    let wrong = Credentials { password: "wrong horse".into(), ..me.clone() };
    client.post("/auth/login", &wrong).await?.expect(401);
    client.get("/users/me").await?.expect(401);
    client.get("/nowhere").await?.expect(404);
    client.get("/auth/login").await?.expect(405);
    client.get("/posts/first").await?.expect(404);
    client.get("/posts/404").await?.expect(404);
    client.get("/posts/404/comments").await?.expect(404);

    let first: Tokens = client.post("/auth/login", &me).await?.expect(200).json()?;
    client.get_as(&first.refresh, "/users/me").await?.expect(401);
    let used = RefreshToken { refresh: first.refresh };
    let second: Tokens = client.post("/auth/refresh", &used).await?.expect(200).json()?;
    client.post("/auth/refresh", &used).await?.expect(401);
    // The reuse ended the session, so the token that was good goes with it.
    client.post("/auth/refresh", &RefreshToken { refresh: second.refresh }).await?.expect(401);
    Ok(())
}

async fn posts_and_comments(client: &mut Client) -> Result<()> {
    let author = client.post("/auth/login", &credentials("me@example.com")).await?.expect(200);
    let author: Tokens = author.json()?;
    let post = NewPost { title: "Traces".into(), body: "They hang together.".into() };
    client.post("/posts", &post).await?.expect(401);
    let posted: Post = client.post_as(&author.access, "/posts", &post).await?.expect(201).json()?;
    assert_eq!((posted.author_id, posted.title.as_str()), (author.user_id, "Traces"));
    let listed: Vec<Post> = client.get("/posts").await?.expect(200).json()?;
    assert_eq!(listed, std::slice::from_ref(&posted));
    let shown: Post = client.get(&format!("/posts/{}", posted.id)).await?.expect(200).json()?;
    assert_eq!(shown, posted);

    let path = format!("/posts/{}/comments", posted.id);
    let comment = NewComment { body: "Indeed.".into() };
    let commented: Comment = client.post_as(&author.access, &path, &comment).await?.expect(201).json()?;
    let comments: Vec<Comment> = client.get(&path).await?.expect(200).json()?;
    assert_eq!(comments, [commented]);
    client.post_as(&author.access, "/posts/404/comments", &comment).await?.expect(404);
    let empty = NewComment { body: " ".into() };
    client.post_as(&author.access, &path, &empty).await?.expect(400);

    client.unsampled("/posts").await?.expect(200);
    client.probe("/healthz").await?.expect(200);
    Ok(())
}

/// Every span belongs to a request that was sent as sampled, and leads up to it.
fn check_trees(sent: &[Sent], spans: &[Received]) {
    let requests: HashMap<_, _> = sent.iter().map(|sent| (sent.trace_id.as_slice(), sent)).collect();
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.id(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "span ids are unique");
    for span in spans {
        let request = requests.get(span.span.trace_id.as_slice());
        let request = request.unwrap_or_else(|| panic!("a trace that nobody started: {span:?}"));
        if span.span.parent_span_id == request.span_id {
            assert_eq!(span.step(), ("gateway", SERVER, span.span.name.as_str()), "the way in");
        } else {
            assert!(by_id.contains_key(&span.parent_id()), "an orphan: {span:?}");
        }
    }
    for request in sent {
        let ways_in = spans.iter().filter(|span| span.span.parent_span_id == request.span_id).count();
        assert_eq!(ways_in, 1, "server spans of {request:?}");
    }
}

/// The paths from the gateway that load tests are to find the causes of slowness on.
fn check_paths(sent: &[Sent], spans: &[Received]) {
    let expected: [(&str, u16, &[Step]); 7] = [
        (
            "POST /auth/register",
            201,
            &[
                ("gateway", CLIENT, "auth.v1.Auth/Register"),
                ("auth", SERVER, "auth.v1.Auth/Register"),
                ("auth", INTERNAL, "bcrypt.hash"),
            ],
        ),
        (
            "POST /auth/register",
            201,
            &[
                ("gateway", CLIENT, "auth.v1.Auth/Register"),
                ("auth", SERVER, "auth.v1.Auth/Register"),
                ("auth", CLIENT, "user.v1.Users/Create"),
                ("user", SERVER, "user.v1.Users/Create"),
                ("user", CLIENT, "INSERT users"),
            ],
        ),
        (
            "POST /auth/login",
            200,
            &[
                ("gateway", CLIENT, "auth.v1.Auth/Login"),
                ("auth", SERVER, "auth.v1.Auth/Login"),
                ("auth", INTERNAL, "bcrypt.verify"),
            ],
        ),
        (
            "POST /auth/refresh",
            200,
            &[
                ("gateway", CLIENT, "auth.v1.Auth/Refresh"),
                ("auth", SERVER, "auth.v1.Auth/Refresh"),
                ("auth", CLIENT, "INSERT refresh_tokens"),
            ],
        ),
        (
            "POST /auth/logout",
            204,
            &[
                ("gateway", CLIENT, "auth.v1.Auth/Logout"),
                ("auth", SERVER, "auth.v1.Auth/Logout"),
                ("auth", CLIENT, "UPDATE refresh_tokens"),
            ],
        ),
        (
            "GET /users/me",
            200,
            &[
                ("gateway", CLIENT, "user.v1.Users/Get"),
                ("user", SERVER, "user.v1.Users/Get"),
                ("user", CLIENT, "SELECT users"),
            ],
        ),
        (
            "GET /posts/{id}/comments",
            200,
            &[
                ("gateway", CLIENT, "comment.v1.Comments/List"),
                ("comment", SERVER, "comment.v1.Comments/List"),
                ("comment", CLIENT, "blog.v1.Posts/Get"),
                ("blog", SERVER, "blog.v1.Posts/Get"),
                ("blog", CLIENT, "SELECT posts"),
            ],
        ),
    ];
    for (route, status, path) in expected {
        let mut of_this_kind = 0;
        for request in sent.iter().filter(|sent| sent.status == status) {
            let trace: Vec<_> = spans.iter().filter(|span| span.span.trace_id == request.trace_id).collect();
            let mut level: Vec<_> =
                trace.iter().filter(|span| span.step() == ("gateway", SERVER, route)).collect();
            if level.is_empty() {
                continue;
            }
            of_this_kind += 1;
            for step in path {
                let parents: Vec<_> = level.iter().map(|span| span.id()).collect();
                level = trace
                    .iter()
                    .filter(|span| span.step() == *step && parents.contains(&span.parent_id()))
                    .collect();
                assert!(!level.is_empty(), "{step:?} is missing in {trace:#?}");
            }
        }
        assert!(of_this_kind > 0, "no {route} was answered {status}");
    }
}

/// Statements are told by their text, without the values that were put in.
fn check_statements(spans: &[Received]) {
    let statements: Vec<_> =
        spans.iter().filter(|span| span.attribute("db.system.name").as_deref() == Some("sqlite")).collect();
    assert!(!statements.is_empty());
    for span in statements {
        let [operation, table, text] = ["db.operation.name", "db.collection.name", "db.query.text"]
            .map(|key| span.attribute(key).unwrap_or_else(|| panic!("{key} is missing in {span:?}")));
        assert_eq!(span.span.name, format!("{operation} {table}"));
        assert!(text.starts_with(&operation) && text.contains('?'), "{text}");
        assert!(!format!("{span:?}").contains("example.com"), "{span:?}");
    }
    // SQLite's number for what the second registration of an address runs into.
    let taken = spans.iter().find(|span| span.attribute("error.type").as_deref() == Some("2067"));
    assert_eq!(taken.map(Received::step), Some(("user", CLIENT, "INSERT users")));
}
