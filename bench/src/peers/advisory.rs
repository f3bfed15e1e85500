//! The locks that databases have themselves, bound to a connection: they are not fenced, and what they guard may be
//! written after the connection was lost.

use std::net::SocketAddr;

use mysql_async::prelude::Queryable;

use super::shedlock::{mariadb_client, postgres_client};
use crate::Outcome;

/// The number of the lock on PostgreSQL, and its name on MariaDB.
const NUMBER: i64 = 4_121;
const NAME: &str = "advisory";

const POSTGRES_LOCK: &str = "SELECT pg_advisory_lock($1)";
const POSTGRES_UNLOCK: &str = "SELECT pg_advisory_unlock($1)";

/// How long MariaDB may wait, in seconds, is part of the statement.
const MYSQL_LOCK: &str = "SELECT GET_LOCK(?, 10)";
const MYSQL_UNLOCK: &str = "SELECT RELEASE_LOCK(?)";

/// One client, with one connection.
pub(crate) enum Advisory {
    Postgres { client: tokio_postgres::Client, lock: tokio_postgres::Statement, unlock: tokio_postgres::Statement },
    Mysql { conn: mysql_async::Conn },
}

impl Advisory {
    pub(crate) async fn postgres(address: SocketAddr) -> Outcome<Self> {
        let client = postgres_client(address).await?;
        let (lock, unlock) = (client.prepare(POSTGRES_LOCK).await?, client.prepare(POSTGRES_UNLOCK).await?);
        Ok(Self::Postgres { client, lock, unlock })
    }

    pub(crate) async fn mariadb(address: SocketAddr) -> Outcome<Self> {
        Ok(Self::Mysql { conn: mariadb_client(address).await? })
    }

    /// Locks and releases what no other client wants.
    pub(crate) async fn lock_and_release(&mut self) -> Outcome<()> {
        let is_released = match self {
            Self::Postgres { client, lock, unlock } => {
                client.execute(&*lock, &[&NUMBER]).await?;
                client.query_one(&*unlock, &[&NUMBER]).await?.try_get(0)?
            }
            Self::Mysql { conn } => {
                let locked: Option<i64> = conn.exec_first(MYSQL_LOCK, (NAME,)).await?;
                let released: Option<i64> = conn.exec_first(MYSQL_UNLOCK, (NAME,)).await?;
                (locked, released) == (Some(1), Some(1))
            }
        };
        if is_released { Ok(()) } else { Err("the lock was not held".into()) }
    }
}
