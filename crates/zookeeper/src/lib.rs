//! Lockkeeper on Apache ZooKeeper: fair, fenced locks, and a ZooKeeper client for tokio.
//!
//! Most programs use the crate `lockkeeper` and give it a URL. This crate is for programs that want the parts:
//!
//! - [`ZooKeeperBackend`]: a backend of `lockkeeper-core`. Its queues are byte for byte those of Apache Curator (or of
//!   kazoo, see [`Layout`]), so that programs in Java, Go, Python and Rust exclude one another on one path. An
//!   uncontended lock costs one round trip, and a hand-off one notification.
//! - [`Client`]: the client below it. One session, kept alive over lost connections; typed requests that are on their
//!   way when they are called; one-shot watches as futures; errors that say whether trying again can help.
//! - [`Dial`]: how servers are reached: TCP, TLS with the feature `tls`, or a test's own connections.
//!
//! ```no_run
//! # async fn example() -> Result<(), lockkeeper_core::Error> {
//! use std::sync::Arc;
//!
//! use lockkeeper_recipes::Keeper;
//! use lockkeeper_zookeeper::ZooKeeperBackend;
//!
//! let keeper = Keeper::new(Arc::new(ZooKeeperBackend::open(&"zk://h1,h2,h3?session_timeout=20s".parse()?)?));
//! let guard = keeper.mutex("nightly-backup")?.lock().await?;
//! println!("ours, with token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A map of the code, from the outside in: `config` reads the URL; `client` and `lock` speak to a `link`, which is the
//! session shared with the one task that has the socket, the `driver`; `dial` connects it, over the ways of
//! `lockkeeper-session`; `layout` and `queue` are pure and know the names and their order. The protocol, and the rule
//! until when a session may be believed, are in `lockkeeper-zk-proto`.
//!
//! # What other users can do
//!
//! By default nodes are open to all users, as Curator and kazoo make them: any client that reaches the service can
//! delete a contender, or ask it to give up. With a user in the URL, who is authenticated on each connection, and
//! `?acl=creator`, only that user can use the nodes of locks, and so the locks.
//!
//! # How it works
//!
//! All requests of a session go over one connection, in the order of the calls but for proofs and deletions, which go
//! first. At most `IN_FLIGHT_MAX` requests and `IN_FLIGHT_BYTES_MAX` bytes, with the expected size of long lists, are
//! unanswered at a time (`zk-proto`, `client::config`). The rest waits unwritten, and a proof write goes before it
//! (`submit_ahead`). So the time of a proof does not depend on the number of requests. If a caller needs a list of a
//! queue while another list of it is requested but not written yet, that list moves behind the caller's own requests,
//! and both share the answer (`lock::shared_list`): ten thousand joins cost some ten lists.
//!
//! A contender of the same session is waited for without a watch (`lock/waits.rs`): the answer to its own deletion
//! tells, and counts once the watch on the waiter's own node was answered. A writer behind readers of its session looks
//! at the queue once (`decide::readers_ahead`). Deletions go before all requests but proofs, and waiters
//! together leave as one transaction (`client/deletions.rs` in `zk-proto`), so that the server flushes its log once for
//! all. The creation that is next goes along unless many of the session wait, one at most, since its transaction is its
//! token: a lock that is dropped and asked for again at once costs one flush. It stays behind if another creation of
//! that queue waits too, and one that comes later waits for the answer, so that joins stand in the order of their
//! calls. If one part is refused, the others go out once more, each alone, and so do the lists that were sent behind
//! the transaction: a look shows nothing that was withdrawn before it. While many wait, the driver lets the tasks that
//! it has woken ask first, and then writes (`gather`).
//!
//! A follower (`lock/follow`) has its own session, and one recursive watch on the base. It reads all after each
//! connection, since a server does not tell what changed during a cut, and then each node that was created or written,
//! once. Events only mark paths; at more than 10,000 marks it drops them and reads all. `path_scheme` knows the lock of
//! a node, and `model` the contenders of each lock; looks and followers show them by the same code (`lock/shown.rs`).
//! A follower looks at servers before 3.6 again and again, for a hundredth of the time; likewise at a base with nodes
//! that may not be read, since servers from 3.8.4 on keep their changes to themselves.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod client;
mod config;
mod dial;
mod driver;
mod error;
mod layout;
mod link;
mod lock;
mod queue;

pub use client::{Client, Created, NewNode, NodeEvent, NodeWatch, Transaction, TransactionResult};
pub use config::{BASE_DEFAULT, Config, PORT_DEFAULT, SETTINGS};
pub use dial::{Dial, TcpDial};
pub use error::{ClientError, ClientErrorKind};
pub use layout::{ElectionLayout, ForeignPolicy, Layout};
pub use lock::{ZooKeeperBackend, contender_path};
pub use lockkeeper_session::{Server, Stream};
/// What a server refuses a request with.
pub use lockkeeper_zk_proto::message::ErrorCode;
