//! Runs the blog service, which owns the posts.

use std::process::ExitCode;

use blog::{post, service};

fn main() -> ExitCode {
    service::run("blog", post::serve)
}
