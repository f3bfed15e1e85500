//! Examination of the service: findings that its users should know.
//!
//! - `session`: what a session tells: its timeout, and how long answers take;
//! - `rights`: whether this user can make what locks are made of, tried without leaving anything;
//! - `tree`: what the nodes below the base show, and the leader's clock;
//! - `words`: what the servers say of themselves where they answer four-letter words;
//! - `ensemble`: judges that: which servers lead and follow, and the tick;
//! - `whole`: all of it, for an operator.

mod ensemble;
mod rights;
mod session;
mod tree;
mod whole;
mod words;

pub(super) use whole::examine;
