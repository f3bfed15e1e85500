//! A real server of either kind of database. The unit tests have it too.

use std::net::SocketAddr;

use lockkeeper_faults::{Result, mariadb, postgres};

#[derive(Debug)]
pub(crate) enum Server {
    Postgres(postgres::Server),
    Mariadb(mariadb::Server),
}

/// Does the same with a server of either kind.
macro_rules! either {
    ($server:expr, $it:ident => $act:expr) => {
        match $server {
            Self::Postgres($it) => $act,
            Self::Mariadb($it) => $act,
        }
    };
}

pub(crate) use either;

impl Server {
    /// What is PostgreSQL's, or MariaDB's.
    pub(crate) fn either<T>(&self, postgres: T, mariadb: T) -> T {
        match self {
            Self::Postgres(_) => postgres,
            Self::Mariadb(_) => mariadb,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        either!(self, server => server.address())
    }

    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<postgres::Row>> {
        either!(self, server => server.ask(sql).await)
    }
}
