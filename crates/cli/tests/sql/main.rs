//! `lockkeeper` on real PostgreSQL and MariaDB: real commands in real processes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `death` | runners that are killed |
//! | `examining` | what `doctor` and `capabilities` say of a server |
//! | `fleet` | many commands at once, many in order |
//! | `refusals` | what `run` says of a server that is not as it should be, or is not believed |
//! | `round_trips` | how many round trips a command costs |
//! | `setup` | what `setup` makes and prints |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg(all(feature = "postgres", feature = "mysql"))]

mod death;
mod examining;
#[path = "../support/round_trips.rs"]
mod few_round_trips;
mod fleet;
#[path = "../support/machine.rs"]
mod machine;
#[cfg(feature = "tls")]
mod refusals;
mod round_trips;
mod setup;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
