//! Examination of the service: findings that its users should know.
//!
//! - `judge`: the rules, pure;
//! - `report`: reads what a server says of itself, pure;
//! - `trial`: tries what locks need;
//! - `whole`: all of it, for an operator; and the brief form, for each process.

mod judge;
mod report;
mod trial;
mod whole;

pub(crate) use whole::{examine_briefly, examine_wholly};
