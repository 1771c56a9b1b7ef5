//! Accounts and sessions, and who is asking.

use axum::{
    Json,
    extract::{FromRef, FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
};
use blog_api::{Credentials, RefreshToken, Tokens, User};
use blog_proto::{
    auth::v1::{
        AuthenticateRequest, LoginRequest, LogoutRequest, RefreshRequest, RegisterRequest, TokenPair,
        auth_client::AuthClient,
    },
    user::v1::{GetRequest, users_client::UsersClient},
};

use super::{body::Body, problem::Problem};
use crate::grpc::Peer;

pub(super) async fn register(
    State(mut auth): State<AuthClient<Peer>>,
    Body(Credentials { email, password }): Body<Credentials>,
) -> Result<(StatusCode, Json<User>), Problem> {
    let registered = auth.register(RegisterRequest { email, password }).await?.into_inner();
    let user = User { id: registered.user_id, email: registered.email, created_at: registered.created_at };
    Ok((StatusCode::CREATED, Json(user)))
}

pub(super) async fn login(
    State(mut auth): State<AuthClient<Peer>>,
    Body(Credentials { email, password }): Body<Credentials>,
) -> Result<Json<Tokens>, Problem> {
    let pair = auth.login(LoginRequest { email, password }).await?.into_inner();
    Ok(Json(tokens(pair)))
}

pub(super) async fn refresh(
    State(mut auth): State<AuthClient<Peer>>,
    Body(RefreshToken { refresh }): Body<RefreshToken>,
) -> Result<Json<Tokens>, Problem> {
    let pair = auth.refresh(RefreshRequest { refresh }).await?.into_inner();
    Ok(Json(tokens(pair)))
}

pub(super) async fn logout(
    State(mut auth): State<AuthClient<Peer>>,
    Body(RefreshToken { refresh }): Body<RefreshToken>,
) -> Result<StatusCode, Problem> {
    auth.logout(LogoutRequest { refresh }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn me(
    State(mut users): State<UsersClient<Peer>>,
    CurrentUser { id }: CurrentUser,
) -> Result<Json<User>, Problem> {
    let user = users.get(GetRequest { id }).await?.into_inner();
    Ok(Json(User { id: user.id, email: user.email, created_at: user.created_at }))
}

fn tokens(pair: TokenPair) -> Tokens {
    Tokens { user_id: pair.user_id, access: pair.access, refresh: pair.refresh }
}

/// Who sent the request, by its access token.
#[derive(Debug)]
pub(super) struct CurrentUser {
    pub(super) id: i64,
}

impl<S> FromRequestParts<S> for CurrentUser
where
    AuthClient<Peer>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let access = bearer(parts)
            .ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "an access token is needed"))?
            .to_owned();
        let mut auth = AuthClient::<Peer>::from_ref(state);
        let user = auth.authenticate(AuthenticateRequest { access }).await?.into_inner();
        Ok(Self { id: user.user_id })
    }
}

fn bearer(parts: &Parts) -> Option<&str> {
    let (scheme, token) = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
