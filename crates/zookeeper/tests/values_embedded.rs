//! The tests of values, each with its own embedded server.

#[path = "values.rs"]
mod values;
