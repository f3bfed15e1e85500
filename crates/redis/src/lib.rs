//! Lockkeeper on Redis and Valkey: one fair queue with fencing tokens for each lock.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod layout;
mod script;
