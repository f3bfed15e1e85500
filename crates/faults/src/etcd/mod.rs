//! Real etcd: one server alone, or a cluster; Debian's, or 3.5.1 from PyPI.
//!
//! - [`Release`]: which etcd.
//! - [`Server`]: kill, stop, restart, pause, wipe, save and restore a snapshot.
//! - [`Server::ask`]: asks it in JSON, as an operator would, past every client under test.
//! - [`Cluster`]: several of them, and who leads. [`GrpcProxy`] is etcd's own proxy before one.
//!
//! Servers listen on loopback (or inside a [network](crate::namespaces)), keep their data in a temporary folder, and
//! die with the test.

mod asking;
mod cluster;
mod proxy;
mod release;
mod setup;
mod snapshot;

pub use cluster::Cluster;
pub use proxy::GrpcProxy;
pub use release::Release;

use crate::{Availability, process, server};

/// One etcd server; dropping it kills it and removes its data.
pub type Server = server::Server<setup::Setup>;

/// Whether Debian's servers can be started here.
pub fn availability() -> Availability {
    availability_of(Release::Debian)
}

/// Whether servers of a release can be started here.
pub fn availability_of(release: Release) -> Availability {
    process::availability().and(|| release.availability())
}
