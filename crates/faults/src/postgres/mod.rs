//! Real PostgreSQL, Debian's: one server alone, or with an asynchronous standby.
//!
//! - [`Setup`]: what a server is started with.
//! - [`Server`]: kill, stop, restart, pause, promote, move its clock.
//! - [`Server::ask`]: sends it SQL as a superuser would, past every client under test.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test. PostgreSQL refuses to run
//! as root; there it runs as the user `nobody`.

mod asking;
mod programs;
mod segment;
mod setup;
mod standby;

pub use crate::sql::Row;
pub(crate) use segment::forget as forget_segment;

use std::path::PathBuf;

use crate::{Availability, Result, clock, process, scratch, server, sql};

/// What a server is started with.
pub type Setup = sql::Setup<setup::Own>;

/// One PostgreSQL server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// The path of a program of PostgreSQL, as `pgbench`: they are not in `PATH`.
pub fn program(name: &str) -> Result<PathBuf> {
    programs::find(name)
}

/// Whether servers can be started here.
pub fn availability() -> Availability {
    process::availability().and(programs::availability)
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    clock::availability()
}

/// Whether a server can have a [file system for itself](Setup::room_bytes) here.
pub fn disk_availability() -> Availability {
    scratch::room_availability()
}
