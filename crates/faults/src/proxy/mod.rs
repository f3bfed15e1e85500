//! A TCP proxy on loopback between clients and one server, that delays, swallows, cuts and, for ZooKeeper, counts.
//!
//! - [`Proxy`] is the handle: behaviour is changed at run time, for connections under way too.
//! - [`Operation`], [`FrameRecord`]: what passed, per operation and direction, with its time.
//! - `accept` owns the port, `connection` moves the bytes, `conversation` matches replies to requests, `frames` takes
//!   the byte stream apart, `state` is the plan that all follow.
//!
//! It forwards whole frames, in order, and never makes up or repeats one. A stream that does not look like ZooKeeper's
//! protocol (a four-letter word) is passed on as it comes, with the same delays, and not counted.

mod accept;
mod connection;
mod conversation;
mod frames;
mod handle;
mod record;
mod state;

pub use frames::Operation;
pub use handle::{Proxy, ReplyDrop};
pub use record::{Direction, Fate, FrameRecord};
pub use state::{AfterDrop, Flow};
