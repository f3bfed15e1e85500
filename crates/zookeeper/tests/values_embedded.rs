//! The tests of values, each with an embedded server of its own.

#[path = "values.rs"]
mod values;
