//! The queues, as locks see them: what a session does in them, and looks without a session.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.

mod departure;
mod guard;
mod inspect;
mod join;
mod place;
mod plain;
mod record;
mod service;
mod value;
mod view;
mod watch;

pub(crate) use self::inspect::{Onlooking, inspect, inspect_each, long_name, names};
pub(crate) use self::service::begin;
