//! The services whose locks are followed.

use std::any::Any;

use lockkeeper_faults::{etcd, mariadb, postgres, redis, zookeeper};

use super::super::bench::present;
use super::super::server::process::Server as Embedded;
use crate::Outcome;
use crate::report::rows::{APACHE, EMBEDDED, ETCD, MARIADB, NO_SERVER, POSTGRES, REDIS};

/// As their rows name them.
pub(super) const ALL: [&str; 7] = [NO_SERVER, EMBEDDED, APACHE, ETCD, REDIS, POSTGRES, MARIADB];

/// A service that runs.
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) url: String,
    /// What must stay for the locks to be there.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Served {
    pub(super) async fn start(name: &'static str) -> Outcome<Self> {
        let (url, kept): (String, Box<dyn Any + Send + Sync>) = match name {
            EMBEDDED => {
                let server = Embedded::embedded()?;
                (format!("zk://{}", server.address), Box::new(server))
            }
            APACHE => {
                present(zookeeper::availability())?;
                let server = zookeeper::Server::standalone_on_disk(zookeeper::Setup::new()).await?;
                (format!("zk://{}", server.address()), Box::new(server))
            }
            ETCD => {
                present(etcd::availability())?;
                let server = etcd::Server::standalone_on_disk().await?;
                (format!("etcd://{}", server.address()), Box::new(server))
            }
            REDIS => {
                present(redis::availability())?;
                let server = redis::Server::standalone().await?;
                (format!("redis://{}", server.address()), Box::new(server))
            }
            POSTGRES => {
                present(postgres::availability())?;
                let server = postgres::Setup::new().durable().on_disk().start().await?;
                (format!("postgres://postgres@{}/postgres", server.address()), Box::new(server))
            }
            MARIADB => {
                present(mariadb::availability())?;
                let server = mariadb::Setup::new().durable().on_disk().start().await?;
                (format!("mariadb://root@{}", server.address()), Box::new(server))
            }
            _ => {
                let directory = tempfile::tempdir()?;
                (format!("file:{}", directory.path().join("locks").display()), Box::new(directory))
            }
        };
        Ok(Self { name, url, _kept: kept })
    }

    /// Whether it tells of changes.
    pub(super) fn is_told(&self) -> bool {
        ![POSTGRES, MARIADB].contains(&self.name)
    }
}
