//! The bodies the gateway takes and gives, as JSON. Nothing here knows how they are served.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Body of `POST /auth/register` and `POST /auth/login`.
#[derive(Clone, Deserialize, Serialize)]
pub struct Credentials {
    pub email: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Answer of `POST /auth/login` and `POST /auth/refresh`.
#[derive(Clone, Deserialize, Serialize)]
pub struct Tokens {
    pub user_id: i64,
    /// For `Authorization: Bearer`; good for minutes.
    pub access: String,
    /// Good for days, and for one refresh.
    pub refresh: String,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

/// Body of `POST /auth/refresh` and `POST /auth/logout`.
#[derive(Clone, Deserialize, Serialize)]
pub struct RefreshToken {
    pub refresh: String,
}

impl fmt::Debug for RefreshToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshToken").finish_non_exhaustive()
    }
}

/// Answer of `POST /auth/register` and `GET /users/me`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct User {
    pub id: i64,
    pub email: String,
    /// Seconds since the Unix epoch, as everywhere below.
    pub created_at: i64,
}

/// Body of `POST /posts`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NewPost {
    pub title: String,
    pub body: String,
}

/// Answer of `POST /posts` and `GET /posts/{id}`; `GET /posts` gives the newest fifty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Post {
    pub id: i64,
    pub author_id: i64,
    pub title: String,
    pub body: String,
    pub created_at: i64,
}

/// Body of `POST /posts/{id}/comments`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NewComment {
    pub body: String,
}

/// Answer of `POST /posts/{id}/comments`; `GET /posts/{id}/comments` gives a post's oldest hundred.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Comment {
    pub id: i64,
    pub post_id: i64,
    pub author_id: i64,
    pub body: String,
    pub created_at: i64,
}

/// Body of every answer that is not a success.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Problem {
    pub error: String,
}
