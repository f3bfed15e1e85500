//! `lockkeeper` on real PostgreSQL and MariaDB: real commands in real processes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `examining` | what `doctor` and `capabilities` say of a server |
//! | `refusals` | what `run` says of a server that is not as it should be, or is not believed |
//!
//! Each test needs Debian's packages, and skips by name without them.

#![cfg(all(feature = "postgres", feature = "mysql"))]

mod examining;
#[cfg(feature = "tls")]
mod refusals;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
