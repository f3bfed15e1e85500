//! Real MariaDB, Debian's: one server alone, with an asynchronous replica, or as a node of Galera.
//!
//! - [`Setup`]: what a server is started with.
//! - [`Server`]: kill, stop, restart, pause, promote, move its clock.
//! - [`Pooler`]: stands between clients and a server, and keeps the clients when the server has ended.
//! - [`Server::ask`]: sends it SQL as a superuser would, past every client under test.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test. MariaDB refuses to run as
//! root; there it runs as the user `nobody`.

mod answer;
mod asking;
mod pooler;
mod programs;
mod replica;
mod setup;

pub use crate::sql::Row;
pub use pooler::Pooler;

use crate::server::Kind;
use crate::{Availability, clock, process, scratch, server, sql};

/// What a server is started with.
pub type Setup = sql::Setup<setup::Own>;

/// One MariaDB server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

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

/// Whether [nodes of Galera](Setup::galera) can be started here.
pub fn galera_availability() -> Availability {
    let setup = Setup::new().galera();
    setup.ground.availability().and(|| setup.availability())
}
