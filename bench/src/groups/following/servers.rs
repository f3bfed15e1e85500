//! The servers whose locks are followed.

use lockkeeper_faults::etcd;
use lockkeeper_faults::mariadb;
use lockkeeper_faults::postgres;
use lockkeeper_faults::redis;
use lockkeeper_faults::zookeeper;
use tempfile::TempDir;

use super::super::needs::present;
use super::super::server::process::Server as Embedded;
use crate::Outcome;
use crate::report::rows::{APACHE, EMBEDDED, ETCD, MARIADB, NO_SERVER, POSTGRES, REDIS};

/// Whose locks are followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Followed {
    Files,
    Embedded,
    Apache,
    Etcd,
    Redis,
    Postgres,
    Mariadb,
}

/// What must stay for the locks to be there.
pub(super) enum Served {
    Files(TempDir),
    Embedded(Embedded),
    Apache(zookeeper::Server),
    Etcd(etcd::Server),
    Redis(redis::Server),
    Postgres(postgres::Server),
    Mariadb(mariadb::Server),
}

impl Followed {
    pub(super) const ALL: [Self; 7] =
        [Self::Files, Self::Embedded, Self::Apache, Self::Etcd, Self::Redis, Self::Postgres, Self::Mariadb];

    /// As its rows name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Files => NO_SERVER,
            Self::Embedded => EMBEDDED,
            Self::Apache => APACHE,
            Self::Etcd => ETCD,
            Self::Redis => REDIS,
            Self::Postgres => POSTGRES,
            Self::Mariadb => MARIADB,
        }
    }

    /// Whether its service tells of changes.
    pub(super) const fn is_told(self) -> bool {
        !matches!(self, Self::Postgres | Self::Mariadb)
    }
}

impl Served {
    pub(super) async fn start(followed: Followed) -> Outcome<Self> {
        Ok(match followed {
            Followed::Files => Self::Files(tempfile::tempdir()?),
            Followed::Embedded => Self::Embedded(Embedded::embedded()?),
            Followed::Apache => {
                present(zookeeper::availability())?;
                Self::Apache(zookeeper::Server::standalone_on_disk(zookeeper::Setup::new()).await?)
            }
            Followed::Etcd => {
                present(etcd::availability())?;
                Self::Etcd(etcd::Server::standalone_on_disk().await?)
            }
            Followed::Redis => {
                present(redis::availability())?;
                Self::Redis(redis::Server::standalone().await?)
            }
            Followed::Postgres => {
                present(postgres::availability())?;
                Self::Postgres(postgres::Setup::new().durable().on_disk().start().await?)
            }
            Followed::Mariadb => {
                present(mariadb::availability())?;
                Self::Mariadb(mariadb::Setup::new().durable().on_disk().start().await?)
            }
        })
    }

    pub(super) const fn followed(&self) -> Followed {
        match self {
            Self::Files(_) => Followed::Files,
            Self::Embedded(_) => Followed::Embedded,
            Self::Apache(_) => Followed::Apache,
            Self::Etcd(_) => Followed::Etcd,
            Self::Redis(_) => Followed::Redis,
            Self::Postgres(_) => Followed::Postgres,
            Self::Mariadb(_) => Followed::Mariadb,
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Files(directory) => format!("file:{}", directory.path().join("locks").display()),
            Self::Embedded(server) => format!("zk://{}", server.address),
            Self::Apache(server) => format!("zk://{}", server.address()),
            Self::Etcd(server) => format!("etcd://{}", server.address()),
            Self::Redis(server) => format!("redis://{}", server.address()),
            Self::Postgres(server) => format!("postgres://postgres@{}/postgres", server.address()),
            Self::Mariadb(server) => format!("mariadb://root@{}", server.address()),
        }
    }
}
