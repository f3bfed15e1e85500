//! A durable server of either kind, with its data on the disk.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_faults::{mariadb, postgres};
use lockkeeper_recipes::Keeper;
use lockkeeper_sql::SqlBackend;

use crate::Outcome;

/// More than the clients of a thousand waiters: each has one connection, and on MariaDB a second one.
const CONNECTIONS_MAX: &str = "500";

/// A kind of database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Postgres,
    Mariadb,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
        })
    }
}

/// One server.
pub(crate) enum Server {
    Postgres(postgres::Server),
    Mariadb(mariadb::Server),
}

impl Server {
    pub(crate) async fn start(kind: Kind) -> Outcome<Self> {
        Ok(match kind {
            Kind::Postgres => {
                let setup = postgres::Setup::new().durable().on_disk().setting("max_connections", CONNECTIONS_MAX);
                let server = setup.setting("shared_preload_libraries", "pg_stat_statements").start().await?;
                server.ask("CREATE EXTENSION pg_stat_statements").await?;
                Self::Postgres(server)
            }
            Kind::Mariadb => {
                let setup = mariadb::Setup::new().durable().on_disk().setting("max-connections", CONNECTIONS_MAX);
                Self::Mariadb(setup.start().await?)
            }
        })
    }

    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Postgres(_) => Kind::Postgres,
            Self::Mariadb(_) => Kind::Mariadb,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Postgres(server) => server.address(),
            Self::Mariadb(server) => server.address(),
        }
    }

    /// The URL for the superuser, in a database in which others may make tables.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => format!("postgres://postgres@{}/postgres", server.address()),
            Self::Mariadb(server) => format!("mariadb://root@{}", server.address()),
        }
    }

    /// Makes a client of ours.
    pub(crate) fn keeper(&self) -> Outcome<Keeper> {
        Ok(Keeper::new(Arc::new(SqlBackend::open(&self.url().parse()?)?)))
    }

    /// How many statements of clients it has executed.
    pub(crate) async fn statements(&self) -> Outcome<f64> {
        Ok(match self {
            Self::Postgres(server) => {
                // Transactions would not do: PostgreSQL counts one too for each listener that reads its notifications.
                let sql = "SELECT sum(calls) FROM pg_stat_statements WHERE toplevel";
                server.value(sql).await?.parse()?
            }
            Self::Mariadb(server) => {
                let sql =
                    "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'";
                server.value(sql).await?.parse()?
            }
        })
    }
}
