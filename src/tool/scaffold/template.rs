//! The text of new files.

/// A scenario that compiles and runs, for its author to fill.
pub(super) fn scenario(name: &str, library: &str) -> String {
    format!(
        r#"//! The load test `{name}`: `cargo loadtest {name}` runs it against `base-url` of loadtest.toml.

use {library}::prelude::*;

/// What each virtual user does, again and again.
async fn iteration(vu: &Vu) -> Result {{
    let response = vu.get("/").send().await?;
    vu.check("status is 200", response.status() == 200);
    vu.sleep(millis(500)..secs(1)).await;
    Ok(())
}}

fn main() -> {library}::ExitCode {{
    {library}::main([scenario("{name}", iteration)
        .ramping_vus([stage(secs(10), 10), stage(secs(20), 10), stage(secs(5), 0)])
        .threshold("http_req_failed", "rate<0.01")
        .threshold("http_req_duration", "p(95)<500ms")])
}}
"#
    )
}

/// A package for scenarios alone.
pub(super) fn manifest(package: &str) -> String {
    format!(
        r#"[package]
name = "{package}"
version = "0.0.0"
edition = "2024"
publish = false
"#
    )
}
