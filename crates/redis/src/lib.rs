//! Lockkeeper on Redis and Valkey: one fair queue with fencing tokens for each lock.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod answers;
mod backend;
mod connection;
mod examine;
mod follow;
mod layout;
mod look;
mod queue;
mod script;
mod session;
mod url;

pub use backend::RedisBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, Testing};
pub use url::{BASE_DEFAULT, Config, PORT_DEFAULT, SENTINEL_PORT_DEFAULT, SETTINGS};
