//! ZooKeeper's client protocol without I/O: no socket, no clock, no task.
//!
//! The crate has two users, a client driver and a server, and they share one codec: every message is encoded and
//! decoded in both directions. From the wire up, and no file imports from a later stage:
//!
//! - [`jute`]: the primitives of the serialization, bounded by the bytes that are really there;
//! - [`frame`]: length-prefixed frames with a maximum;
//! - [`message`]: requests, replies, watch events and their parts;
//! - [`path`]: node paths that are always valid, chroot, sequence numbers;
//! - [`watch`]: what one client watches and which of it an event ends;
//! - [`client`]: the session machine and [`client::Anchor`], which says until when a session may be believed;
//! - [`time`]: the one type for time, whose values the caller supplies.
//!
//! Not in this crate: dialing, choosing servers, backing off, TLS, chroot rewriting of requests, and everything that
//! knows what a lock is.

#![warn(clippy::exhaustive_enums, unnameable_types)]

pub mod client;
pub mod frame;
pub mod jute;
pub mod message;
pub mod path;
pub mod time;
pub mod watch;
