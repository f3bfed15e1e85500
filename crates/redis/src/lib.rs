//! Lockkeeper on Redis and Valkey: one fair queue with fencing tokens for each lock.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod connection;
mod layout;
mod script;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub use url::{
    BASE_DEFAULT, CONNECT_TIMEOUT_DEFAULT, Config, PORT_DEFAULT, SENTINEL_PORT_DEFAULT, SESSION_TIMEOUT_DEFAULT,
};
