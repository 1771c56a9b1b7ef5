//! Compiles the protos in Rust alone: neither protoc nor `CMake` has to be installed.

use std::error::Error;

const PROTOS: [&str; 4] =
    ["auth/v1/auth.proto", "user/v1/user.proto", "blog/v1/blog.proto", "comment/v1/comment.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    // Services make their channels themselves, with tracing in them.
    tonic_prost_build::configure().build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
