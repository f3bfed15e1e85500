//! The fault tests, each with an embedded server of its own.

#[path = "faults.rs"]
mod faults;
