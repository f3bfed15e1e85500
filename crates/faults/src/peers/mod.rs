//! Curator, kazoo and go-zookeeper as child processes, so that Lockkeeper can be put in one queue with them.
//!
//! - [`Peer`] is a running one: the same commands for all, one at a time.
//! - [`Kind`] is which of a peer's recipes.
//! - [`Ground`] is where all who hold a lock see whether they are alone: peers, and the tests' own contenders.
//! - [`curator`] compiles and starts Curator's driver, [`kazoo`] starts kazoo's and installs it, [`go`] compiles and starts
//!   go-zookeeper's.
//!
//! The drivers themselves lie in `peers/curator`, `peers/kazoo` and `peers/go`; how they talk stands in
//! `CuratorPeer.java`.

mod beside;
mod cache;
pub mod curator;
pub mod go;
mod ground;
pub mod kazoo;
mod kind;
mod peer;

pub use beside::SharedCount;
pub use ground::{Grant, Ground, Inside, Mode};
pub use kind::Kind;
pub use peer::Peer;
