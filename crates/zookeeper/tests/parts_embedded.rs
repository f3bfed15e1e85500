//! The tests of layouts, each with its own embedded server.

#[path = "parts.rs"]
mod parts;
