//! Lockkeeper on etcd: fair, fenced locks whose contenders are leased keys.
//!
//! Most programs use the crate `lockkeeper` with the feature `etcd`, and give it a URL: `etcd://h1,h2,h3`. This crate
//! is for programs that want the backend alone: [`EtcdBackend`].
//!
//! ```no_run
//! # async fn example() -> Result<(), lockkeeper_core::Error> {
//! use std::sync::Arc;
//!
//! use lockkeeper_etcd::EtcdBackend;
//! use lockkeeper_recipes::Keeper;
//!
//! let keeper = Keeper::new(Arc::new(EtcdBackend::open(&"etcd://h1,h2,h3?session_timeout=20s".parse()?)?));
//! let guard = keeper.mutex("nightly-backup")?.lock().await?;
//! println!("ours, with token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A map of the code, from the inside out: `proto` has the messages, `rpc` makes the calls over one connection,
//! `layout` knows the keys, `session` is a lease that is kept alive and proven, `queue` is what locks ask of it,
//! `follow` tells of all locks, and `backend` opens sessions and looks.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod backend;
mod examine;
mod follow;
mod layout;
mod look;
mod proto;
mod queue;
mod rpc;
mod session;
mod url;

pub use backend::EtcdBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, Testing};
pub use url::{BASE_DEFAULT, Config, ContenderKey, PORT_DEFAULT, SETTINGS};
