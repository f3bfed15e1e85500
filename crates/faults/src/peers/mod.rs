//! Curator, kazoo and go-zookeeper as child processes, so that Lockkeeper can be put in one queue with them.
//!
//! - [`Peer`] is a running one: the same commands for all, one at a time.
//! - [`Kind`] names a peer's recipe.
//! - [`Ground`] is where all holders of a lock see whether they are alone: peers, and the tests' own contenders.
//! - [`curator`] compiles and starts Curator's driver, [`kazoo`] starts kazoo's and installs it, [`go`] compiles and
//!   starts go-zookeeper's.
//!
//! The drivers themselves are in `peers/curator`, `peers/kazoo` and `peers/go`; `CuratorPeer.java` describes the
//! commands.

pub mod curator;
pub mod go;
mod ground;
pub mod kazoo;
mod peer;
mod timed;

pub use ground::{Grant, Ground, Inside, Mode};
pub use peer::{Kind, Peer, SharedCount};
pub use timed::{Sharing, TimedCrowd};
