//! The tests on Apache's server: those that both servers are for, and those of it alone.

use crate::support::Make;

#[path = "both/mod.rs"]
mod both;
mod ensemble;
mod examination;
mod lost_data;

const SERVER: Make = Make::Apache;
