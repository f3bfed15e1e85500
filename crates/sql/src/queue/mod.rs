//! The queues, as locks see them: what a session does in them, and looks without a session.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.

mod departure;
mod guard;
mod inspect;
mod place;
mod record;
mod rows;
mod service;
mod watch;

pub(crate) use self::inspect::{All, inspect, inspect_all, names};
pub(crate) use self::service::begin;
