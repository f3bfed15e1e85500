//! The fault tests, each with its own embedded server.

#[path = "faults.rs"]
mod faults;
