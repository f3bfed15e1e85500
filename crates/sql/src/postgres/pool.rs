//! Connections that the program has already: what is asked of a pool, and how it fails.
//!
//! A pool answers one message of PostgreSQL's simple query protocol. So it is asked alike by all drivers, and the
//! connections that we open ourselves are asked so too where they are not ours alone.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, SimpleQueryMessage};

/// One row of an answer: its columns as text, in the form in which the server sends them; `None` is NULL.
pub type TextRow = Vec<Option<String>>;

/// A pool of connections to one PostgreSQL.
///
/// Any of its connections may be taken for each message, and none is kept afterwards. All lead to one server, which
/// each message checks. A connection is given outside a transaction: a message in one that the caller has open is
/// refused.
///
/// The feature `deadpool-postgres` has it for `deadpool_postgres::Pool`, and the crate `lockkeeper-sqlx` for sqlx.
pub trait PostgresPool: Send + Sync + 'static {
    /// Sends this message over any connection, as one message of the simple query protocol, and returns all rows that
    /// it is answered, of all of its statements.
    ///
    /// It fails with [`PoolError::NoConnection`] if no connection is had within `free_within`. Dropping the future may
    /// leave the message unsent, under way, or done, and gives the connection back.
    fn ask(&self, message: String, free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>>;
}

/// Why a pool has no answer.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a message was not sent, refused, or not answered")]
pub enum PoolError {
    /// No connection was had, so nothing was sent.
    NoConnection(Box<dyn Error + Send + Sync>),
    /// The server refused the message: it has had no effect.
    Refused {
        /// The SQLSTATE.
        code: String,
        /// The server's words.
        message: String,
        /// Whether the connection ends with it (`FATAL` or `PANIC`): then the message may have had its effect.
        is_last: bool,
    },
    /// The connection ended, or what came over it is no answer: the message may have had its effect, or may still.
    Broken(Box<dyn Error + Send + Sync>),
}

impl PoolError {
    /// Says that no connection was free in this time.
    pub fn none_free(within: Duration) -> Self {
        Self::NoConnection(format!("all connections of the pool were in use for {within:?}").into())
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(_) => formatter.write_str("the pool gave no connection"),
            Self::Refused { code, message, .. } => write!(formatter, "{message} (SQLSTATE {code})"),
            Self::Broken(_) => formatter.write_str("the connection ended before there was an answer"),
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoConnection(source) | Self::Broken(source) => Some(&**source),
            Self::Refused { .. } => None,
        }
    }
}

impl From<tokio_postgres::Error> for PoolError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::Refused {
                code: said.code().code().to_owned(),
                message: said.message().to_owned(),
                is_last: matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
            },
            None => Self::Broken(Box::new(error)),
        }
    }
}

/// The rows among the messages of an answer.
pub(super) fn text_rows(messages: &[SimpleQueryMessage]) -> Vec<TextRow> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()).collect()
}

/// One connection, which is always free.
pub(super) struct OneConnection(pub(super) Arc<Client>);

impl PostgresPool for OneConnection {
    fn ask(&self, message: String, _free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        let client = self.0.clone();
        Box::pin(async move { Ok(text_rows(&client.simple_query(&message).await?)) })
    }
}

#[cfg(feature = "deadpool-postgres")]
impl PostgresPool for deadpool_postgres::Pool {
    fn ask(&self, message: String, free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        let pool = self.clone();
        Box::pin(async move {
            let taking = tokio::time::timeout(free_within, pool.get());
            let client = taking.await.map_err(|_| PoolError::none_free(free_within))?.map_err(not_taken)?;
            Ok(text_rows(&client.simple_query(&message).await?))
        })
    }
}

/// Why a pool has no connection: where the server has refused it, in the server's words.
#[cfg(feature = "deadpool-postgres")]
fn not_taken(error: deadpool_postgres::PoolError) -> PoolError {
    match error {
        deadpool_postgres::PoolError::Backend(error) => match error.into() {
            PoolError::Broken(source) => PoolError::NoConnection(source),
            refused => refused,
        },
        error => PoolError::NoConnection(Box::new(error)),
    }
}
