//! `lockkeeper` on real Redis: real commands in real processes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `fleet` | many commands at once, on each release; many in order, while the server is killed and restarted |
//! | `access` | many commands of a user with the least rights; users and servers that are of no use |
//! | `tls` | many commands over TLS, with a certificate; both ends without it |
//! | `death` | runners that are killed or stopped |
//! | `examining` | what `doctor` and `capabilities` say of a server |
//! | `setnx` | commands beside plain locks of other clients |
//! | `services` | many commands while sentinels replace the master, and while the slot of a cluster moves |
//! | `round_trips` | how many round trips a command costs |
//! | `site` | many commands that count |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg(feature = "redis")]

mod access;
mod death;
mod examining;
#[path = "../support/round_trips.rs"]
mod few_round_trips;
mod fleet;
#[path = "../support/machine.rs"]
mod machine;
mod round_trips;
mod services;
mod setnx;
mod site;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "tls")]
mod tls;
