//! `lockkeeper` on real services: real commands in real processes, against servers that are killed and replaced, and
//! beside clients of other makes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `fleet` | many commands at once, while servers are killed and replaced |
//! | `death`, `zookeeper_death` | runners that are killed or stopped |
//! | `etcd_access`, `redis_access` | users with the least rights |
//! | `grace` | which grace is refused |
//! | `looking` | what `doctor`, `capabilities` and `check` say, looks that leave nothing |
//! | `moving` | nodes that move to Apache's server and back |
//! | `peers` | requests of Curator's |
//! | `round_trips` | how many round trips a command costs |
//! | `setup` | what `setup` makes and prints |
//! | `slots` | a command that is run once for each slot, while runs are killed and stopped |
//! | `site`, `zookeeper` | a machine that uses a service, and many commands on it; servers of Apache's |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg_attr(
    not(all(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "the tests of some services use a part of what all share")
)]

mod death;
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
#[path = "../support/services.rs"]
mod services;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod setup;
mod site;
mod slots;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod zookeeper;
mod zookeeper_death;
