//! The queues, as locks see them: what a session does in them, and looks without a session.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.

mod change;
mod departure;
mod guard;
mod inner;
mod inspect;
mod join;
mod leave;
mod place;
mod record;
mod request;
mod rows;
mod session;
mod value;
mod view;

pub(crate) use self::inspect::{All, inspect, inspect_all, names};
pub(crate) use self::session::SqlSession;
