//! Locks over a pool of sqlx, and fencing tokens in its transactions.
//!
//! ```no_run
//! use lockkeeper_sqlx::{SqlxPool, bind};
//!
//! # async fn run(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let keeper = lockkeeper::pool::connect(SqlxPool::new(pool.clone()), "postgres://billing-db")?;
//! let guard = keeper.mutex("invoices")?.lock().await?;
//! let mut transaction = pool.begin().await?;
//! bind(&mut transaction, guard.hold()).await?;
//! sqlx::query("UPDATE invoice SET sent = true").execute(&mut *transaction).await?;
//! transaction.commit().await?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What a pool is asked, and what follows from its failures, [`lockkeeper::pool`] knows; what a bound token means,
//! [`lockkeeper::fence`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper::Hold;
use lockkeeper::backend::BoxFuture;
use lockkeeper::fence::sql::{BindError, FencedTransaction, POSTGRES_PAIR};
use lockkeeper::pool::{PoolError, PostgresPool, TextRow};
use sqlx::postgres::{PgDatabaseError, PgRow, PgSeverity};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, PgPool, Postgres, Row as _, Transaction, ValueRef as _};
use tokio::runtime::{Handle, Id};

/// A pool of sqlx, as locks take it. Its clones are the same pool.
///
/// A pool of one connection is enough, as long as no transaction of the program keeps it for longer than the session's
/// timeout. Where a lock is taken within a transaction, a second one is needed.
#[derive(Clone, Debug)]
pub struct SqlxPool {
    pool: PgPool,
    /// The runtime in which it is asked, from the first time on.
    home: Arc<OnceLock<Id>>,
}

impl SqlxPool {
    /// Takes a pool, for the sessions of one runtime.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, home: Arc::default() }
    }

    /// Whether it is asked from another runtime than its sessions', as at the end of that one: its connections do not
    /// go on then.
    fn is_left(&self) -> bool {
        let here = Handle::current().id();
        *self.home.get_or_init(|| here) != here
    }
}

impl PostgresPool for SqlxPool {
    fn ask(&self, message: String, free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        let this = self.clone();
        Box::pin(async move {
            let Self { pool, .. } = &this;
            if this.is_left() {
                let mut connection = pool.connect_options().connect().await.map_err(not_taken)?;
                return ask(&mut connection, message).await;
            }
            let taking = tokio::time::timeout(free_within, pool.acquire());
            let taken = taking.await.map_err(|_| PoolError::none_free(free_within))?;
            let mut connection = taken.map_err(not_taken)?;
            ask(&mut connection, message).await
        })
    }
}

/// Sends a message over one connection, for pools that have connections of sqlx and are none of its own.
///
/// # Errors
///
/// Those of [`PostgresPool::ask`].
pub async fn ask(connection: &mut PgConnection, message: String) -> Result<Vec<TextRow>, PoolError> {
    let asked = sqlx::raw_sql(AssertSqlSafe(message)).fetch_all(connection);
    let rows = asked.await.map_err(|error| refused(&error).unwrap_or_else(|| broken(error)))?;
    rows.iter().map(text_row).collect()
}

/// Why there is no connection: where the server has refused it, in the server's words.
fn not_taken(error: sqlx::Error) -> PoolError {
    refused(&error).unwrap_or_else(|| PoolError::NoConnection(Box::new(error)))
}

/// The refusal of a server, in its words.
fn refused(error: &sqlx::Error) -> Option<PoolError> {
    let said = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    Some(PoolError::Refused {
        code: said.code().to_owned(),
        message: said.message().to_owned(),
        is_last: matches!(said.severity(), PgSeverity::Fatal | PgSeverity::Panic),
    })
}

fn broken(error: sqlx::Error) -> PoolError {
    PoolError::Broken(Box::new(error))
}

/// The columns of a row, which come as text in answer to a simple query.
fn text_row(row: &PgRow) -> Result<TextRow, PoolError> {
    (0..row.len())
        .map(|at| {
            let value = row.try_get_raw(at).map_err(broken)?;
            if value.is_null() {
                return Ok(None);
            }
            value.as_str().map(|text| Some(text.to_owned())).map_err(PoolError::Broken)
        })
        .collect()
}

/// Binds the hold's token in a transaction of sqlx, so that what the transaction writes is refused if another holder
/// was there since: then the transaction is not to be committed, and `?` leaves it to be rolled back. It is
/// [`lockkeeper::fence::sql::bind`] for sqlx.
///
/// # Errors
///
/// [`BindError::Overtaken`]; and what sqlx says, as when the table is missing.
pub async fn bind(transaction: &mut Transaction<'_, Postgres>, hold: &Hold) -> Result<(), BindError<sqlx::Error>> {
    lockkeeper::fence::sql::bind(&mut SqlxTransaction(transaction), hold).await
}

/// A transaction in which tokens are bound.
struct SqlxTransaction<'a, 'c>(&'a mut Transaction<'c, Postgres>);

impl FencedTransaction for SqlxTransaction<'_, '_> {
    type Error = sqlx::Error;

    async fn bind_token(&mut self, name: String, grant: i64, turn: i64) -> Result<bool, sqlx::Error> {
        let binding = sqlx::query(POSTGRES_PAIR.bind).bind(name).bind(grant).bind(turn);
        Ok(binding.fetch_optional(&mut **self.0).await?.is_some())
    }
}
