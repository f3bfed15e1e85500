//! The tests of requests, each with an embedded server of its own.

#[path = "requests.rs"]
mod requests;
