//! Queues of contenders, made of leased keys: the waist of `lockkeeper-core`, over one session.
//!
//! - `session`: the waist's methods; each of the larger ones has a file.
//! - `inner`: what they share. `entries`, `place`: our own contenders. `guard`: watches these.
//! - `remnants`: contenders that depend on no lease, for an operator.
//! - `record`: what is stored under a contender's key. `view`: reads queues; `around`: what decides
//!   for one place in a long one. `tail`: which segment of a long queue is joined.

mod around;
mod change;
mod departure;
mod entries;
mod guard;
mod inner;
mod inspect;
mod join;
mod place;
mod record;
mod remnants;
mod request;
mod session;
mod standing;
mod subscription;
mod tail;
mod value;
mod view;
mod withdraw;

pub(crate) use inspect::{Onlooking, Seen, Snapshot, in_order, inspect, name_in, names, snapshot};
pub(crate) use remnants::{remnants, remove};
pub(crate) use session::EtcdSession;
