//! A TCP proxy on loopback between clients and one server, that delays, swallows, cuts, and loses single replies.
//!
//! - [`Proxy`] is the handle: behaviour is changed at run time, for connections under way too.
//! - [`Operation`], [`FrameRecord`]: what passed, per operation and direction, with its time.
//! - [`Burst`]: what passed, whatever it was, and how many round trips lay before it.
//! - `handle` owns the port too, `connection` moves the bytes, `record` has the plan that all follow.
//! - `conversation` takes the byte stream apart, and knows ZooKeeper's protocol.
//!
//! It forwards whole frames, in order, and never makes up or repeats one. A stream that does not look like its protocol
//! (a four-letter word of ZooKeeper's), or is encrypted, is passed on as it comes, with the same delays, and not
//! counted.

mod connection;
pub(crate) mod conversation;
mod handle;
mod record;

pub use handle::{Proxy, ReplyDrop};
pub use record::{AfterDrop, Burst, Direction, Fate, Flow, FrameRecord, Operation};
