//! Load tests in Rust that say where the time went.
