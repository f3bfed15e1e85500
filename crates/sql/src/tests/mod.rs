//! The functions and connections of both kinds of database, on real servers: one suite, which each kind plays.
//!
//! A planted fault is a function whose text was changed: it shows that the test beside it can fail.

mod client;
mod clocks;
mod crowds;
#[path = "../../tests/support/database.rs"]
mod database;
mod examining;
mod greetings;
mod interruptions;
mod named_locks;
mod places;
mod poolers;
mod refusals;
mod secured;
mod server;
mod sessions;
mod statements;
mod states;
mod told;
mod views;
mod ways;
