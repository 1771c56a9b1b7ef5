//! The blog: an HTTP gateway in front of four gRPC services. Each of the modules `gateway`, `user`,
//! `auth`, `post` and `comment` is one service; its binary does nothing but run it.

pub mod auth;
pub mod comment;
pub mod gateway;
pub mod post;
pub mod service;
pub mod user;

mod db;
mod error;
mod grpc;
mod telemetry;
