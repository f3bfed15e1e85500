//! The tests on the embedded server: those that both servers are for, and those of it alone.
#![expect(clippy::duplicate_mod, reason = "the same tests run on each server")]

use crate::support::Make;

#[path = "both/mod.rs"]
mod both;
mod counters;
mod moved_sessions;

const SERVER: Make = Make::Embedded;
