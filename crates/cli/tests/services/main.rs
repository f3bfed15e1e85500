//! `lockkeeper` on real services: real commands in real processes, against servers that are killed and replaced, and
//! beside clients of other makes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `fleet` | many commands at once and in their order, while servers are killed, replaced or moved |
//! | `death`, `zookeeper_death` | runners that are killed, stopped, or have their place taken away |
//! | `doctor` | what `doctor` and `capabilities` say of a server |
//! | `etcd_access`, `redis_access` | users with the least rights; users and servers that are of no use |
//! | `sql_refusals` | what `run` says of a database that is not as it should be |
//! | `zookeeper_refusals` | servers of ZooKeeper that cannot be used |
//! | `grace` | which grace is refused |
//! | `looking` | `ls`, `show`, `wait`, `capabilities`, `check` |
//! | `moving` | nodes that move to Apache's server and back |
//! | `peers`, `setnx` | one queue with Curator; commands beside plain locks of other clients on Redis |
//! | `round_trips` | how many round trips a command costs |
//! | `setup` | what `setup` makes and prints |
//! | `tls` | commands over TLS |
//! | `site`, `sql`, `zookeeper` | a machine that uses a service, and many commands on it; databases; servers of Apache's |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg_attr(
    not(all(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "tls")),
    expect(dead_code, unused_imports, reason = "the tests of some services use a part of what all share")
)]

mod death;
mod doctor;
#[cfg(feature = "etcd")]
mod etcd_access;
mod fleet;
mod grace;
mod looking;
mod moving;
mod peers;
#[cfg(feature = "redis")]
mod redis_access;
mod round_trips;
#[expect(dead_code, reason = "no server of one kind alone is killed here")]
#[path = "../support/services.rs"]
mod services;
#[cfg(feature = "redis")]
mod setnx;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod setup;
mod site;
mod sql;
#[cfg(all(feature = "postgres", feature = "mysql", feature = "tls"))]
mod sql_refusals;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(feature = "etcd", feature = "redis", feature = "tls"))]
mod tls;
mod zookeeper;
mod zookeeper_death;
mod zookeeper_refusals;
