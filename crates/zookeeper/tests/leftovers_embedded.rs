//! The tests of what is left behind, each with its own embedded server.

#[path = "leftovers.rs"]
mod leftovers;
