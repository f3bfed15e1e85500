//! Examination of a database: findings that its users should know.
//!
//! - `judge`: the rules, pure: what both kinds of database share, and what each has for itself;
//! - `report`: reads what a server says of itself, pure;
//! - `whole`: asks a server, by the function `examine`, and measures requests.

mod judge;
mod report;
mod whole;

pub(crate) use whole::examine;
