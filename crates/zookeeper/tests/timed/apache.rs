//! The tests on Apache's server: those that both servers are for, and those of it alone.

use crate::support::Make;

mod herd;
mod round_trips;
mod sharing;

#[path = "both/long_queue.rs"]
mod long_queue;
#[path = "both/revoking.rs"]
mod revoking;

/// The server of the tests in these modules.
const SERVER: Make = Make::Apache;
