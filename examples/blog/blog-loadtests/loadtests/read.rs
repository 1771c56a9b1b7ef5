//! Readers of a blog that has something to read, and the one in ten who comments.

use blog_api::{Comment, Credentials, NewComment, NewPost, Post, Tokens};
use loadtest::prelude::*;

const POSTS: usize = 20;

/// What all users share: the blog's author is signed in once.
struct Blog {
    /// The author's access token.
    access: String,
    posts: Vec<i64>,
}

async fn publish(vu: &Vu) -> Result<Blog> {
    let author = Credentials {
        email: format!("author-{}@example.com", vu.unique()),
        password: "correct horse battery staple".into(),
    };
    vu.post("/auth/register").json(&author).send().await?.expect_status(201)?;
    let author: Tokens = vu.post("/auth/login").json(&author).send().await?.expect_status(200)?.json()?;
    let mut posts = Vec::with_capacity(POSTS);
    for n in 1..=POSTS {
        let post = NewPost { title: format!("Post {n}"), body: "Something to read. ".repeat(50) };
        let post: Post =
            vu.post("/posts").bearer(&author.access).json(&post).send().await?.expect_status(201)?.json()?;
        posts.push(post.id);
    }
    Ok(Blog { access: author.access, posts })
}

async fn read(vu: &Vu, blog: &Blog) -> Result {
    let newest: Vec<Post> = vu.get("/posts").send().await?.expect_status(200)?.json()?;
    vu.check("there are posts", !newest.is_empty());

    let id = blog.posts[vu.iteration() as usize % blog.posts.len()];
    let post: Post = vu.get("/posts/{id}").path("id", id).send().await?.expect_status(200)?.json()?;
    vu.check("the right post", post.id == id);
    let comments = vu.get("/posts/{id}/comments").path("id", id).send().await?.expect_status(200)?;
    let comments: Vec<Comment> = comments.json()?;
    vu.check("the right comments", comments.iter().all(|comment| comment.post_id == id));

    if vu.iteration() % 10 == 9 {
        let comment = NewComment { body: "Read to the end.".into() };
        vu.post("/posts/{id}/comments")
            .path("id", id)
            .bearer(&blog.access)
            .json(&comment)
            .send()
            .await?
            .expect_status(201)?;
    }
    vu.sleep(Duration::from_millis(50)..Duration::from_millis(150)).await;
    Ok(())
}

fn main() -> loadtest::ExitCode {
    loadtest::main([stateful("read")
        .setup(publish)
        .iteration(async |vu: &Vu, (): &mut (), blog: &Blog| read(vu, blog).await)
        .constant_vus(20, secs(30))
        .threshold("http_req_failed", "rate<0.01")
        .threshold(r#"http_req_duration{step:"GET /posts/{id}"}"#, "p(95)<100ms")])
}
