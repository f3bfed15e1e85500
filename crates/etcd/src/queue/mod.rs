//! Queues of contenders, made of leased keys: the waist of `lockkeeper-core`, over one session.
//!
//! - `service`: the calls, each behind the earlier ones on its lock; each of the larger ones has a file. Whose turn it
//!   is, and what becomes of a call that fails, the engine of all services decides.
//! - `inner`: what they share. `claims`, `place`: our own contenders. `guard`: watches these.
//! - `remnants`: contenders that depend on no lease, for an operator.
//! - `record`: what is stored under a contender's key. `view`: reads queues; `around`: what decides for one place in a
//!   long one. `tail`: which segment of a long queue is joined. `subscription`, `watch`: what is told of changes.

mod around;
mod claims;
mod departure;
mod guard;
mod inner;
mod inspect;
mod join;
mod leave;
mod place;
mod record;
mod remnants;
mod request;
mod service;
mod subscription;
mod tail;
mod value;
mod view;
mod watch;

pub(crate) use inspect::{Onlooking, Seen, Snapshot, in_order, inspect, name_in, names, snapshot};
pub(crate) use remnants::{remnants, remove};
pub(crate) use service::begin;
