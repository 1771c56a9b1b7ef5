//! One user, everything once, five times over: is there anything to load at all?

use blog_api::{Comment, Credentials, NewComment, NewPost, Post, RefreshToken, Tokens, User};
use loadtest::prelude::*;

async fn smoke(vu: &Vu) -> Result {
    let user = Credentials {
        email: format!("smoke-{}@example.com", vu.unique()),
        password: "correct horse battery staple".into(),
    };
    let registered: User = vu.post("/auth/register").json(&user).send().await?.expect_status(201)?.json()?;
    let tokens: Tokens = vu.post("/auth/login").json(&user).send().await?.expect_status(200)?.json()?;
    let me: User = vu.get("/users/me").bearer(&tokens.access).send().await?.expect_status(200)?.json()?;
    vu.check("the token is the new user's", me == registered);

    let post = NewPost { title: "Smoke".into(), body: "No fire yet.".into() };
    let post: Post =
        vu.post("/posts").bearer(&tokens.access).json(&post).send().await?.expect_status(201)?.json()?;
    let comment = NewComment { body: "Indeed.".into() };
    let comment: Comment = vu
        .post("/posts/{id}/comments")
        .path("id", post.id)
        .bearer(&tokens.access)
        .json(&comment)
        .send()
        .await?
        .expect_status(201)?
        .json()?;
    let comments = vu.get("/posts/{id}/comments").path("id", post.id).send().await?.expect_status(200)?;
    vu.check("the comment is there", comments.json::<Vec<Comment>>()? == [comment]);

    let session = RefreshToken { refresh: tokens.refresh };
    vu.post("/auth/logout").json(&session).send().await?.expect_status(204)?;
    let again = vu.post("/auth/refresh").json(&session).expected_status([401]).send().await?;
    vu.check("the session is over", again.status() == 401);
    Ok(())
}

fn main() -> loadtest::ExitCode {
    loadtest::main([scenario("smoke", smoke).iterations_per_vu(1, 5).threshold("http_req_failed", "rate==0")])
}
