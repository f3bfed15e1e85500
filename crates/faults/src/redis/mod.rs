//! Real Redis: one server alone, with replicas, with sentinels, or a cluster; Debian's, or an older one and Valkey from
//! PyPI.
//!
//! - [`Setup`]: what a server is started with; [`Release`]: which server.
//! - [`Server`]: kill, stop, restart, pause, wipe, promote, move its clock.
//! - [`Server::ask`]: sends it a command, as an operator would, past every client under test.
//! - [`Sentinels`]: a master and its replicas, and who replaces it; [`Cluster`]: three masters, and slots that move.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test.

mod asking;
mod cluster;
mod release;
mod sentinels;
mod setup;

pub use cluster::Cluster;
pub use release::Release;
pub use sentinels::Sentinels;
pub use setup::{Flush, Setup};

use crate::{Availability, clock, process, server};

/// One Redis server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// Whether Debian's servers can be started here.
pub fn availability() -> Availability {
    availability_of(Release::Debian)
}

/// Whether servers of a release can be started here.
pub fn availability_of(release: Release) -> Availability {
    process::availability().and(|| release.availability())
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    clock::availability()
}

/// Whether [`Sentinels`] can be started here.
pub fn sentinel_availability() -> Availability {
    availability().and(|| Availability::of_programs(&["redis-sentinel"], "redis-sentinel"))
}
