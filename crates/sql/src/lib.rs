//! Lockkeeper on PostgreSQL, MariaDB and MySQL: one fair queue with fencing tokens for each lock.

#![warn(clippy::exhaustive_enums, unnameable_types)]
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "tls")),
    allow(dead_code, reason = "each kind of database has parts that another has not, and so has TLS")
)]

mod backend;
mod engine;
mod engines;
mod examine;
mod follow;
mod look;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod session;
mod site;
mod statement;
mod url;

pub use backend::SqlBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, Testing};
pub use url::{Config, MYSQL_PORT_DEFAULT, POSTGRES_PORT_DEFAULT, SCHEMA_DEFAULT, SETTINGS};
