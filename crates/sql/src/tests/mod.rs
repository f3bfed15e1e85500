//! The functions and connections of both kinds of database, on real servers: one suite, which each kind plays.
//!
//! A planted fault is a function whose text was changed: it shows that the test beside it can fail.

mod client;
mod crowds;
#[path = "../../tests/support/database.rs"]
mod database;
mod examining;
mod following;
mod greetings;
mod interruptions;
mod look_alikes;
mod losses;
#[path = "../../tests/support/operator.rs"]
mod operator;
mod places;
mod poolers;
mod pools;
mod refusals;
mod server;
mod sessions;
mod statements;
mod states;
mod views;
mod waking;
mod ways;
