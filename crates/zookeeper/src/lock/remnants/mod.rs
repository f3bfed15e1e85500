//! Remnants of clients below the base, for an operator: found by a census, judged, and removed one by one.
//!
//! - `census`: reads all queues and their contenders;
//! - `age`: for how long a queue has been unused, as far as a server lets it be known;
//! - `judge`: which of it no client uses;
//! - `remove`: removes one, if it is still as it was seen.

mod age;
mod census;
mod judge;
mod remove;

pub(super) use age::server_time;
pub(super) use census::{Census, SeenNode, count};
pub(super) use judge::judge;
pub(super) use remove::remove;
