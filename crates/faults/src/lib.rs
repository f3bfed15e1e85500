//! Test support that is never shipped: real servers of each kind, real Curator and kazoo, and what can go wrong between
//! them.
//!
//! - [`zookeeper`] starts Apache ZooKeeper, alone or as an ensemble, and looks into it; [`etcd`] starts etcd, alone or
//!   as a cluster; [`redis`] starts Redis; [`postgres`] starts PostgreSQL,
//!   [`mariadb`] MariaDB; [`lending`] hands servers from test to test. [`pgbouncer`] is a pooler before PostgreSQL.
//!   [`sqlite`] is the shell of SQLite. All of these are a [`server`]; [`sql`] is what databases share.
//! - [`authority`] gives out certificates to servers and clients.
//! - [`proxy`] stands between a client and a server: delay, silence, resets, a reply lost after it took effect.
//! - [`namespaces`] gives each server of an ensemble its own network, so that it can be cut off from its peers.
//! - [`peers`] drives Curator and kazoo as child processes, and [`Packages`] finds what comes from PyPI.
//! - [`browser`] is a real browser, to look at pages; [`tmux`] is a terminal, to look at what fills a screen; [`hosts`]
//!   are machines by other names, to be seen on both.
//! - [`process`] runs children that cannot outlive the test, however it ends.
//! - [`long`] says how many rounds a test plays, and [`figures`] reports what they showed.
//! - [`skip`] skips a test by name if it lacks something; [`wait`] waits for an event, and [`sleeper`] counts time
//!   for a bound on how late something may be.
//!
//! Claims about locks are left to the tests; nothing here knows Lockkeeper.
//!
//! What is waited for comes within two minutes. An error says what did not come, or what could not be done here; that
//! of a server ends with its log.
//!
//! Nothing here is reserved in memory alone: ports, subnets and folders are claimed by locked files, so that test
//! processes that run at the same time do not disturb one another, and the next run removes what a killed one left.

mod daemon;
mod scratch;
mod target;

pub mod authority;
pub mod browser;
pub mod etcd;
pub mod figures;
pub mod hosts;
pub mod lending;
pub mod long;
pub mod mariadb;
pub mod namespaces;
pub mod peers;
pub mod pgbouncer;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod server;
pub mod skip;
pub mod sleeper;
pub mod sql;
pub mod sqlite;
pub mod tmux;
pub mod wait;
pub mod zookeeper;

pub use skip::Availability;
pub use target::Packages;
pub use wait::{Error, Result};
