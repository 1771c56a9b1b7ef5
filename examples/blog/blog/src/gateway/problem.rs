//! Answers that are not a success.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use blog_api::Problem as Body;
use tonic::{Code, Status};

#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

pub(super) async fn no_such_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing here")
}

pub(super) async fn no_such_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this cannot be done here")
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let code = match status.code() {
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::AlreadyExists => StatusCode::CONFLICT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            // tonic's own word for a call that took too long is the second.
            Code::DeadlineExceeded | Code::Cancelled => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, status.message())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(Body { error: self.message });
        if self.status == StatusCode::UNAUTHORIZED {
            return (self.status, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response();
        }
        (self.status, body).into_response()
    }
}
