//! An embedded single-node server for ZooKeeper's client protocol, and a test double with fault hooks.
//!
//! It serves one machine: tests, a developer's laptop, a single host. It speaks what a standalone Apache ZooKeeper 3.8
//! speaks, so a program that was written for it also works with an ensemble.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use lockkeeper_zk_server::EmbeddedServer;
//!
//! let server = EmbeddedServer::start().await?;
//! println!("connect to {}", server.url());
//! server.restart().await; // clients reconnect and keep their sessions
//! # Ok::<(), lockkeeper_zk_server::ServerError>(())
//! # }).unwrap();
//! ```
//!
//! A map of the code, from the inside out: `tree`, `session`, `watch` and `auth` are the state and its rules;
//! [`machine`] is the server without I/O; `record` and `storage` keep it on disk; `server` has the sockets and the
//! faults.
//!
//! # Where it differs from Apache ZooKeeper 3.8.0
//!
//! Compared with Debian's package, which has the fix of CVE-2024-23944: a client that may not read a node gets no
//! events of it.
//!
//! - No quotas (the quota nodes are plain nodes), no reconfiguration, no SASL; metrics have other names.
//! - Events to one client about nodes that end with one session come in the order of their paths; lists of children,
//!   of ephemeral nodes and of identities are in order too. Apache has no order there.
//! - `checkWatches` says whether *this* connection has the watch; 3.8.0 says whether any connection has one there.
//! - `checkWatches` on a path without a slash finds no watch; 3.8.0 fails to unmarshal it at times.
//! - Characters beyond the basic plane, which no path may hold, are echoed as UTF-8; Java writes two halves.
//! - A wrong password does not end the connection the session is on.
//! - Times to live are always served; Apache asks for `zookeeper.extendedTypesEnabled`.
//! - `createTTL` without a mode for it is refused as bad arguments, where Apache stops serving. So is an unknown mode
//!   within a multi, where Apache answers with a marshalling error for the whole.
//! - `check` outside a multi, and `createSession` and `deleteContainer` from a client, are unknown operations.
//! - Limits of memory in addition: access lists of more than 4096 entries are invalid, nodes beyond a settable size
//!   exceed a quota, too many connections, sessions or watches end the connection that asked.
//! - Replies to `auth` keep their place among the others.
//! - The latest transaction number jumps ahead at each start, so that it never goes back.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod auth;
pub mod machine;
mod measures;
mod record;
mod server;
mod session;
mod storage;
mod tree;
mod watch;

pub use machine::{Counters, Seed, SeenRequest, UnknownWord, Word};
pub use server::{BlockingServer, EmbeddedServer, ServerBuilder, ServerError};
#[cfg(feature = "tls")]
pub use server::{Tls, TlsError};
pub use session::ConnectionId;
pub use storage::{Recovered, StorageError};
