//! All rows and their budgets, one table a group. What a row means is said by its words; how it is measured, by its
//! group.

mod etcd;
mod file;
mod following;
mod memory;
mod redis;
mod run;
mod server;
mod sql;
mod tables;
mod zookeeper;

use super::row::{Bound, Group, Row, Unit};

pub(crate) use tables::{find, of};

/// The server of rows that need none.
pub(crate) const NO_SERVER: &str = "-";

/// The real servers.
pub(crate) const ETCD: &str = "etcd";
pub(crate) const REDIS: &str = "Redis";
pub(crate) const REDIS_AOF: &str = "Redis, AOF";
pub(crate) const POSTGRES: &str = "PostgreSQL";
pub(crate) const MARIADB: &str = "MariaDB";
pub(crate) const APACHE: &str = "Apache alone";
pub(crate) const APACHE_3: &str = "Apache × 3";
pub(crate) const EMBEDDED: &str = "embedded";

/// Peers' names, as they are written in the table.
const STRICT: &str = "Strict";
const NONE: &str = "";

/// Words that several rows share.
const ALONE: &str = "uncontended lock + release";
const ALONE_LOCAL: &str = "uncontended lock + release, Local";
const CROWD_LOCAL: &str = "32 tasks, one lock, Local";
const STICKY: &str = "Sticky, one task, with an observer";

/// The columns of a table in their order.
const fn row(
    group: Group,
    id: &'static str,
    server: &'static str,
    what: &'static str,
    peer_name: &'static str,
    unit: Unit,
    bound: Bound,
) -> Row {
    Row { group, id, server, what, peer_name, unit, bound }
}
