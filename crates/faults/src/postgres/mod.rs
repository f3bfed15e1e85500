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
mod server;
mod setup;
mod standby;

pub use server::Server;
pub use setup::Setup;

pub use crate::daemon::Row;

use crate::{Availability, clock, process};

/// Whether servers can be started here.
pub fn availability() -> Availability {
    process::availability().and(programs::availability)
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    clock::availability()
}
