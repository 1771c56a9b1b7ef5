//! Sign-up to log-out under up to twenty users. Passwords are hashed twice an iteration, which is what
//! this load finds.

use blog_api::{Credentials, RefreshToken, Tokens};
use loadtest::prelude::*;

async fn auth(vu: &Vu) -> Result {
    let user = Credentials {
        email: format!("user-{}@example.com", vu.unique()),
        password: "correct horse battery staple".into(),
    };
    let registered = vu.post("/auth/register").json(&user).send().await?;
    vu.check("registered", registered.status() == 201);

    let first: Tokens = vu.post("/auth/login").json(&user).send().await?.expect_status(200)?.json()?;
    let first = RefreshToken { refresh: first.refresh };
    let second: Tokens = vu.post("/auth/refresh").json(&first).send().await?.expect_status(200)?.json()?;
    vu.check("the refresh token is a new one", second.refresh != first.refresh);

    let second = RefreshToken { refresh: second.refresh };
    let left = vu.post("/auth/logout").json(&second).send().await?;
    vu.check("logged out", left.status() == 204);

    vu.sleep(secs(1)).await;
    Ok(())
}

fn main() -> loadtest::ExitCode {
    loadtest::main([scenario("auth", auth)
        .ramping_vus([stage(secs(30), 20), stage(mins(1), 20), stage(secs(30), 0)])
        .threshold("http_req_failed", "rate<0.01")
        .threshold("http_req_duration", "p(95)<600ms")])
}
