//! `lockkeeper` on real etcd: real commands in real processes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `fleet` | many commands, while the leader is killed and restarted |
//! | `access` | many commands of a user with the least rights, and commands of users without access |
//! | `tls` | many commands over TLS, with a certificate |
//! | `death` | runners that are killed, alone or with the leader, and one that is stopped |
//! | `round_trips` | how many round trips a command costs |
//! | `site` | a cluster |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg(feature = "etcd")]

mod access;
mod death;
#[path = "../support/round_trips.rs"]
mod few_round_trips;
mod fleet;
#[path = "../support/machine.rs"]
mod machine;
mod round_trips;
mod site;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "tls")]
mod tls;
