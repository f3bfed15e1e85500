//! Locks of databases: ShedLock's statements, and the databases' own locks, which are not fenced and write nothing.

use std::net::SocketAddr;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use tokio_postgres::{Client, NoTls};

use crate::load::Outcome;

/// How long the other's lock waits between two attempts.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

const POSTGRES_TABLE: &str = "CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, \
     lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)";

const POSTGRES_LOCK: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
     VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + interval '20 s', timezone('utc', CURRENT_TIMESTAMP), $2) \
     ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
     locked_by = excluded.locked_by WHERE shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)";

const POSTGRES_UNLOCK: &str =
    "UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = $1 AND locked_by = $2";

const MYSQL_DATABASE: &str = "CREATE DATABASE IF NOT EXISTS peer";

const MYSQL_TABLE: &str = "CREATE TABLE IF NOT EXISTS peer.shedlock (name varchar(64) PRIMARY KEY, \
     lock_until timestamp(3) NOT NULL, locked_at timestamp(3) NOT NULL, locked_by varchar(255) NOT NULL)";

/// Sent once for each name.
const MYSQL_INSERT: &str = "INSERT IGNORE INTO peer.shedlock (name, lock_until, locked_at, locked_by) \
     VALUES (?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), ?)";

const MYSQL_LOCK: &str = "UPDATE peer.shedlock SET lock_until = TIMESTAMPADD(SECOND, 20, UTC_TIMESTAMP(3)), \
     locked_at = UTC_TIMESTAMP(3), locked_by = ? WHERE name = ? AND lock_until <= UTC_TIMESTAMP(3)";

const MYSQL_UNLOCK: &str = "UPDATE peer.shedlock SET lock_until = UTC_TIMESTAMP(3) WHERE name = ? AND locked_by = ?";

/// A connection of the superuser to PostgreSQL.
pub(super) async fn postgres_client(address: SocketAddr) -> Outcome<Client> {
    let settings = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", address.port());
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A connection of the superuser to MariaDB.
pub(super) async fn mariadb_client(address: SocketAddr) -> Outcome<mysql_async::Conn> {
    Ok(mysql_async::Conn::from_url(format!("mysql://root@127.0.0.1:{}/mysql", address.port())).await?)
}

/// One client of such a lock, with one connection.
pub(crate) enum ShedLock {
    Postgres { client: Client, lock: tokio_postgres::Statement, unlock: tokio_postgres::Statement, by: String },
    Mysql { conn: mysql_async::Conn, by: String },
}

impl ShedLock {
    /// Connects to PostgreSQL. `by` differs between clients.
    pub(crate) async fn postgres(address: SocketAddr, by: &str) -> Outcome<Self> {
        let client = postgres_client(address).await?;
        client.batch_execute(POSTGRES_TABLE).await?;
        let (lock, unlock) = (client.prepare(POSTGRES_LOCK).await?, client.prepare(POSTGRES_UNLOCK).await?);
        Ok(Self::Postgres { client, lock, unlock, by: by.to_owned() })
    }

    /// Connects to MariaDB, and makes the row of the lock.
    pub(crate) async fn mariadb(address: SocketAddr, name: &str, by: &str) -> Outcome<Self> {
        let mut conn = mariadb_client(address).await?;
        for sql in [MYSQL_DATABASE, MYSQL_TABLE] {
            conn.query_drop(sql).await?;
        }
        conn.exec_drop(MYSQL_INSERT, (name, by)).await?;
        Ok(Self::Mysql { conn, by: by.to_owned() })
    }

    /// Tries once; returns whether it is locked now.
    pub(crate) async fn try_lock(&mut self, name: &str) -> Outcome<bool> {
        match self {
            Self::Postgres { client, lock, by, .. } => Ok(client.execute(lock, &[&name, by]).await? == 1),
            Self::Mysql { conn, by } => {
                conn.exec_drop(MYSQL_LOCK, (&*by, name)).await?;
                Ok(conn.affected_rows() == 1)
            }
        }
    }

    pub(crate) async fn release(&mut self, name: &str) -> Outcome<()> {
        let released = match self {
            Self::Postgres { client, unlock, by, .. } => client.execute(unlock, &[&name, by]).await?,
            Self::Mysql { conn, by } => {
                conn.exec_drop(MYSQL_UNLOCK, (name, &*by)).await?;
                conn.affected_rows()
            }
        };
        if released == 1 { Ok(()) } else { Err("the lock was not held".into()) }
    }

    /// Locks and releases what no other client wants.
    pub(crate) async fn lock_and_release(&mut self, name: &str) -> Outcome<()> {
        if !self.try_lock(name).await? {
            return Err("another client has the lock".into());
        }
        self.release(name).await
    }

    /// Tries until it is locked, with the pause in between.
    pub(crate) async fn lock(&mut self, name: &str) -> Outcome<()> {
        while !self.try_lock(name).await? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

/// The number of the lock on PostgreSQL, and its name on MariaDB.
const NUMBER: i64 = 4_121;
const NAME: &str = "advisory";

const ADVISORY_POSTGRES_LOCK: &str = "SELECT pg_advisory_lock($1)";
const ADVISORY_POSTGRES_UNLOCK: &str = "SELECT pg_advisory_unlock($1)";

/// How long MariaDB may wait, in seconds, is part of the statement.
const ADVISORY_MYSQL_LOCK: &str = "SELECT GET_LOCK(?, 10)";
const ADVISORY_MYSQL_UNLOCK: &str = "SELECT RELEASE_LOCK(?)";

/// One client, with one connection.
pub(crate) enum Advisory {
    Postgres { client: Client, lock: tokio_postgres::Statement, unlock: tokio_postgres::Statement },
    Mysql { conn: mysql_async::Conn },
}

impl Advisory {
    pub(crate) async fn postgres(address: SocketAddr) -> Outcome<Self> {
        let client = postgres_client(address).await?;
        let (lock, unlock) =
            (client.prepare(ADVISORY_POSTGRES_LOCK).await?, client.prepare(ADVISORY_POSTGRES_UNLOCK).await?);
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
                let locked: Option<i64> = conn.exec_first(ADVISORY_MYSQL_LOCK, (NAME,)).await?;
                let released: Option<i64> = conn.exec_first(ADVISORY_MYSQL_UNLOCK, (NAME,)).await?;
                (locked, released) == (Some(1), Some(1))
            }
        };
        if is_released { Ok(()) } else { Err("the lock was not held".into()) }
    }
}
