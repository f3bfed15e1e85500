//! The tests of requests, each with its own embedded server.

#[path = "requests.rs"]
mod requests;
