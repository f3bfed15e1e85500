//! Where MariaDB's programs are. Debian keeps the server where only root's `PATH` looks.

use crate::Availability;

/// The server.
pub(super) const SERVER: &str = "/usr/sbin/mariadbd";

/// What makes its first data.
pub(super) const INSTALL: &str = "/usr/bin/mariadb-install-db";

/// What makes it a node of Galera.
pub(super) const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

pub(super) fn availability() -> Availability {
    Availability::of_files(&[SERVER, INSTALL], "mariadb-server")
}

pub(super) fn galera_availability() -> Availability {
    Availability::of_files(&[GALERA], "galera-4")
}
