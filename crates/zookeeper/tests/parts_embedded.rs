//! The tests of layouts, each with an embedded server of its own.

#[path = "parts.rs"]
mod parts;
