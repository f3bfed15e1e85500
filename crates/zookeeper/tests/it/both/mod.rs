//! The tests that both servers are for.

use super::SERVER;

mod access;
mod client;
mod faults;
mod following;
pub(crate) mod late_writes;
mod leftovers;
mod neighbours;
mod parts;
pub(crate) mod remnants;
mod requests;
mod values;
