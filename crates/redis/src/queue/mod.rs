//! The queues, as locks see them: what a session does in them, and looks without a session.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.

mod change;
mod departure;
mod guard;
mod inner;
mod inspect;
mod join;
mod place;
mod plain;
mod record;
mod request;
mod session;
mod value;
mod view;
mod withdraw;

pub(crate) use self::inspect::{Onlooking, inspect, inspect_each, long_name, names};
pub(crate) use self::session::RedisSession;
