//! The tests on Apache's server: those that both servers are for, and those of it alone.

use crate::support::Make;

mod ensemble;
mod examination;
mod lost_data;

#[path = "both/access.rs"]
mod access;
#[path = "both/client.rs"]
mod client;
#[path = "both/faults.rs"]
mod faults;
#[path = "both/following.rs"]
mod following;
#[path = "both/late_writes.rs"]
mod late_writes;
#[path = "both/leftovers.rs"]
mod leftovers;
#[path = "both/neighbours.rs"]
mod neighbours;
#[path = "both/parts.rs"]
mod parts;
#[path = "both/remnants.rs"]
mod remnants;
#[path = "both/requests.rs"]
mod requests;
#[path = "both/values.rs"]
mod values;

const SERVER: Make = Make::Apache;
