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
//! session shared with the one task that has the socket, the `driver` (and its present `connection`); `dial` connects
//! it, over the ways of `lockkeeper-session`; `layout` is pure and knows the names. The protocol, and the rule until
//! when a session may be believed, are in `lockkeeper-zk-proto`.
//!
//! # What other users can do
//!
//! By default nodes are open to all users, as Curator and kazoo make them: any client that reaches the service can
//! delete a contender, or ask it to give up. With a user in the URL, who is authenticated on each connection, and
//! `?acl=creator`, only that user can use the nodes of locks, and so the locks.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod alarm;
mod client;
mod config;
mod connection;
mod dial;
mod driver;
mod error;
mod hosts;
mod layout;
mod link;
mod lock;
#[cfg(feature = "tls")]
mod tls;

pub use client::{Client, Created, NewNode, Transaction, TransactionResult, Watch, WatchEvent};
pub use config::{BASE_DEFAULT, Config, PORT_DEFAULT, SETTINGS};
pub use dial::{Dial, TcpDial};
pub use error::{ClientError, ClientErrorKind};
pub use layout::{ElectionLayout, ForeignPolicy, Layout};
pub use lock::{ZooKeeperBackend, contender_path};
pub use lockkeeper_session::{Server, Stream};
/// What a server refuses a request with.
pub use lockkeeper_zk_proto::message::ErrorCode;
