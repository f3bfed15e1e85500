//! The tests of what is left behind, each with an embedded server of its own.

#[path = "leftovers.rs"]
mod leftovers;
