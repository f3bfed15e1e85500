//! Examination of the service: findings that its users should know.
//!
//! - `judge`: the rules, pure;
//! - `members`: asks each member of the URL how it is;
//! - `trial`: tries what locks need, without changing anything;
//! - `whole`: all of it, for an operator; and the brief form, for each process.
//!
//! `renew` is the cure of one thing that no examination can find: tokens over a restored snapshot.

mod judge;
mod members;
mod renew;
mod trial;
mod whole;

pub(crate) use members::examine_members;
pub(crate) use renew::renew_tokens;
pub(crate) use whole::{examine_briefly, examine_cluster, together};
