//! A TCP proxy on loopback between clients and one server, that delays, swallows, cuts, and loses single replies.
//!
//! - [`Proxy`] is the handle: behaviour is changed at run time, for connections under way too.
//! - [`Operation`], [`FrameRecord`]: what passed, per operation and direction, with its time.
//! - [`Burst`]: what passed, whatever it was, and how many round trips lay before it.
//! - `accept` owns the port, `connection` moves the bytes, `state` is the plan that all follow.
//! - `talk` is what must be known of a protocol; `conversation` knows ZooKeeper's, `postgres` and `mysql` those of
//!   their names. `frames` takes the byte stream apart.
//!
//! It forwards whole frames, in order, and never makes up or repeats one. A stream that does not look like its protocol
//! (a four-letter word of ZooKeeper's), or is encrypted, is passed on as it comes, with the same delays, and not
//! counted.

mod accept;
mod burst;
mod connection;
mod conversation;
pub(crate) mod frames;
mod handle;
pub(crate) mod mysql;
mod postgres;
mod record;
mod state;
mod talk;

pub use burst::Burst;
pub use frames::Operation;
pub use handle::{Proxy, ReplyDrop};
pub use record::{Direction, Fate, FrameRecord};
pub use state::{AfterDrop, Flow};
