//! A durable server of either kind, with its data on the disk, and the clients of it.

use std::net::SocketAddr;

use lockkeeper::Keeper;
use lockkeeper_faults::{mariadb, postgres};

use crate::groups::ours::present;
use crate::load::Outcome;
use crate::peers::sql::{Advisory, ShedLock};
use crate::report::rows::{MARIADB, POSTGRES};

/// More than the clients of a thousand waiters: each has one connection, and on MariaDB a second one.
const CONNECTIONS_MAX: &str = "500";

pub(super) enum Server {
    Postgres(postgres::Server),
    Mariadb(mariadb::Server),
}

impl Server {
    pub(super) async fn start(name: &str) -> Outcome<Self> {
        Ok(match name {
            POSTGRES => {
                present(postgres::availability())?;
                let setup = postgres::Setup::new().durable().on_disk().setting("max_connections", CONNECTIONS_MAX);
                let server = setup.setting("shared_preload_libraries", "pg_stat_statements").start().await?;
                server.ask("CREATE EXTENSION pg_stat_statements").await?;
                Self::Postgres(server)
            }
            _ => {
                present(mariadb::availability())?;
                let setup = mariadb::Setup::new().durable().on_disk().setting("max-connections", CONNECTIONS_MAX);
                Self::Mariadb(setup.start().await?)
            }
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => POSTGRES,
            Self::Mariadb(_) => MARIADB,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Postgres(server) => server.address(),
            Self::Mariadb(server) => server.address(),
        }
    }

    /// The URL for the superuser, in a database in which others may make tables.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => format!("postgres://postgres@{}/postgres", server.address()),
            Self::Mariadb(server) => format!("mariadb://root@{}", server.address()),
        }
    }

    /// Makes a client of ours.
    pub(super) fn keeper(&self) -> Outcome<Keeper> {
        Ok(lockkeeper::connect(&*self.url())?)
    }

    /// Makes a client of ShedLock's statements, for this lock.
    pub(super) async fn shedlock(&self, name: &str, by: &str) -> Outcome<ShedLock> {
        match self {
            Self::Postgres(server) => ShedLock::postgres(server.address(), by).await,
            Self::Mariadb(server) => ShedLock::mariadb(server.address(), name, by).await,
        }
    }

    /// Makes a client of the database's own lock.
    pub(super) async fn advisory(&self) -> Outcome<Advisory> {
        match self {
            Self::Postgres(server) => Advisory::postgres(server.address()).await,
            Self::Mariadb(server) => Advisory::mariadb(server.address()).await,
        }
    }

    /// How many statements of clients it has executed.
    pub(super) async fn statements(&self) -> Outcome<f64> {
        // Transactions would not do: PostgreSQL counts one too for each listener that reads its notifications.
        let postgres = "SELECT sum(calls) FROM pg_stat_statements WHERE toplevel";
        let mariadb = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'";
        let counted = match self {
            Self::Postgres(server) => server.value(postgres).await?,
            Self::Mariadb(server) => server.value(mariadb).await?,
        };
        Ok(counted.parse()?)
    }
}
