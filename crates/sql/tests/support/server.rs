//! The real server of one case, of either kind, and what an operator does with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::pgbouncer::{Lending, PgBouncer};
use lockkeeper_faults::{Result, mariadb, postgres, wait};
use lockkeeper_sql::PostgresPool;

use super::database::{Server as Database, either};

/// Opens a pool of connections to a server.
pub(crate) type OpenPool = fn(SocketAddr) -> Arc<dyn PostgresPool>;

#[allow(dead_code, reason = "each binary has servers of one kind")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Postgres,
    /// PostgreSQL behind PgBouncer, which lends a connection for each transaction.
    PgBouncer,
    /// PostgreSQL, and a pool of the program's for each client.
    Pool(OpenPool),
    Mariadb,
}

/// How many connections a pooler has: fewer than most cases have clients and waits.
const POOLED: u32 = 4;

/// A server, and the pooler before it if there is one.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) database: Database,
    pooler: Option<PgBouncer>,
}

impl Server {
    pub(crate) async fn start(kind: Kind) -> Result<Self> {
        if matches!(kind, Kind::Mariadb) {
            return Ok(Self { database: Database::Mariadb(mariadb::Server::standalone().await?), pooler: None });
        }
        let server = postgres::Server::standalone().await?;
        let pooler = match kind {
            Kind::PgBouncer => Some(PgBouncer::start(&server, Lending::Transaction, POOLED).await?),
            _ => None,
        };
        Ok(Self { database: Database::Postgres(server), pooler })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.pooler.as_ref().map_or_else(|| self.database.address(), PgBouncer::address)
    }

    /// Sends it SQL past all clients; returns the first column.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<String>> {
        let rows = self.database.ask(sql).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    pub(crate) async fn wipe(&self) -> Result<()> {
        let sql =
            self.database.either("DROP SCHEMA IF EXISTS lockkeeper CASCADE", "DROP DATABASE IF EXISTS lockkeeper");
        // Clients that end may still hold its rows.
        wait::until("the schema to be removed", SOON, async || self.ask(sql).await.ok().map(drop)).await
    }
}

impl Database {
    pub(crate) fn pause(&mut self) -> Result<()> {
        either!(self, server => server.pause())
    }

    pub(crate) fn resume(&mut self) -> Result<()> {
        either!(self, server => server.resume())
    }

    pub(crate) async fn restart(&mut self) -> Result<()> {
        either!(self, server => server.restart().await)
    }
}

impl Kind {
    /// The superuser's way to it through a proxy.
    pub(crate) fn url(self, address: SocketAddr, settings: &str) -> String {
        match self {
            Self::Mariadb => format!("mariadb://root@{address}/?{settings}"),
            _ => format!("postgres://postgres@{address}/postgres?{settings}"),
        }
    }

    /// Whether tests can start such servers here, and else a line for those who read of the skip.
    pub(crate) fn availability(self) -> lockkeeper_faults::Availability {
        match self {
            Self::Postgres | Self::Pool(_) => postgres::availability(),
            Self::PgBouncer => postgres::availability().and(lockkeeper_faults::pgbouncer::availability),
            Self::Mariadb => mariadb::availability(),
        }
    }

    /// A number of 16 bytes, as this database's SQL has it.
    pub(crate) fn id(self, digits: &str) -> String {
        match self {
            Self::Mariadb => format!("UNHEX('{digits}')"),
            _ => format!("'{digits}'::uuid"),
        }
    }

    /// The digits of a column with such a number.
    pub(crate) fn digits(self, column: &str) -> String {
        match self {
            Self::Mariadb => format!("LOWER(HEX({column}))"),
            _ => format!("replace({column}::text, '-', '')"),
        }
    }

    /// Ends a session as an operator would: with all that depends on it.
    pub(crate) fn ending_session(self, session: &str) -> String {
        let id = self.id(session);
        match self {
            // Nothing there is deleted by another deletion.
            Self::Mariadb => format!("CALL lockkeeper.close_v1({id})"),
            _ => format!("DELETE FROM lockkeeper.session WHERE id = {id}"),
        }
    }

    /// Sets the longest session timeout as an operator would.
    pub(crate) fn limiting(self, timeout: Duration) -> String {
        let timeout_ms = timeout.as_millis();
        match self {
            Self::Mariadb => format!("CALL lockkeeper.limit_v1({timeout_ms}, FALSE)"),
            _ => format!("SELECT text FROM lockkeeper.limit_v1({timeout_ms}, false)"),
        }
    }

    /// All rows that are there for a queue, but for the numbers of queues and for the sessions named.
    pub(crate) fn leftovers(self, survivor: &str) -> String {
        let survivor = self.id(survivor);
        let [ticket, session, id] = ["ticket", "session", "id"].map(|column| self.digits(column));
        let concat = |what: &str, column: &str| format!("CONCAT('{what} ', {column})");
        [
            format!("SELECT {} FROM lockkeeper.contender", concat("contender", &ticket)),
            format!("SELECT {} FROM lockkeeper.value WHERE part <> 2", concat("value of", "name")),
            format!("SELECT {} FROM lockkeeper.watch", concat("watch of", &session)),
            format!("SELECT {} FROM lockkeeper.broken", concat("broken", &ticket)),
            format!("SELECT {} FROM lockkeeper.session WHERE id <> {survivor}", concat("session", &id)),
        ]
        .join(" UNION ALL ")
    }
}
