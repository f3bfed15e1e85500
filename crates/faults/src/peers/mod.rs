//! Curator and kazoo as child processes, so that Lockkeeper can be put in one queue with them.
//!
//! - [`Peer`] is a running one: the same commands for both, one at a time.
//! - [`curator`] compiles and starts Curator's driver, [`kazoo`] starts kazoo's and installs it.
//!
//! The drivers themselves are `peers/CuratorPeer.java` and `peers/kazoo_peer.py`; how they talk stands in the former.

mod cache;
pub mod curator;
pub mod kazoo;
mod peer;

pub use peer::{Kind, Peer};
