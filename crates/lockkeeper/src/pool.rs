//! Locks over a pool of connections to PostgreSQL that the program has already.
//!
//! Each call of a lock borrows a connection for one message; no hold and no wait keeps one, and no connection is opened
//! for locks alone. Waiters look, the next in line every 50 ms. A session beats over the pool too: where all
//! connections are in use for longer than the session's timeout, its guards are lost at their deadlines, and the reason
//! names the pool.
//!
//! The feature `deadpool-postgres` is for `deadpool_postgres::Pool`, the crate `lockkeeper-sqlx` for sqlx. Another pool
//! needs one function, [`PostgresPool::ask`].

use std::sync::Arc;

use lockkeeper_recipes::{Keeper, KeeperBuilder};

use crate::{Error, Result, ServiceUrl};

pub use lockkeeper_sql::{PoolError, PostgresPool, TextRow};

/// Opens a way to the database that a pool leads to.
///
/// The URL carries the settings, and its host is the name of the database in messages. What it says of connecting
/// (further hosts, user, password, TLS) is the pool's, and is not used: it may be the one that the pool was made of.
///
#[cfg_attr(feature = "deadpool-postgres", doc = "```no_run")]
#[cfg_attr(not(feature = "deadpool-postgres"), doc = "```ignore")]
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use deadpool_postgres::{Config, Runtime};
///
/// let config = Config { url: Some("postgres://app@db1/app".to_owned()), ..Config::new() };
/// let pool = config.create_pool(Some(Runtime::Tokio1), tokio_postgres::NoTls)?;
/// let keeper = lockkeeper::pool::connect(pool.clone(), "postgres://db1?session_timeout=30s")?;
/// let guard = keeper.mutex("nightly-backup")?.lock().await?;
/// guard.release().await?;
/// keeper.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`InvalidUrl`](crate::ErrorKind::InvalidUrl), permanent, naming what is wrong.
pub fn connect(pool: impl PostgresPool, url: impl TryInto<ServiceUrl, Error: Into<Error>>) -> Result<Keeper> {
    builder(pool, url).map(KeeperBuilder::build)
}

/// Starts a keeper over a pool, with other settings. Its errors are those of [`connect`].
pub fn builder(pool: impl PostgresPool, url: impl TryInto<ServiceUrl, Error: Into<Error>>) -> Result<KeeperBuilder> {
    let url = url.try_into().map_err(Into::into)?;
    Ok(Keeper::builder(Arc::new(lockkeeper_sql::SqlBackend::on_pool(Arc::new(pool), &url)?)))
}
