//! The tests on the embedded server.
#![expect(clippy::duplicate_mod, reason = "the same tests run on each server")]

use crate::support::Make;

#[path = "both/long_queue.rs"]
mod long_queue;
#[path = "both/revoking.rs"]
mod revoking;

/// The server of the tests in these modules.
const SERVER: Make = Make::Embedded;
