//! Asks a server over its socket in the file system, where the superuser needs no password.

use std::path::PathBuf;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Value};
use tokio::time;

use crate::daemon::Row;
use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// Who may do all.
pub(super) const SUPERUSER: &str = "root";

/// The way in of the superuser.
#[derive(Clone, Debug)]
pub(super) struct Superuser {
    pub(super) socket: PathBuf,
}

impl Superuser {
    /// Sends statements over a new connection; returns the rows of all of them.
    pub(super) async fn ask(&self, database: Option<&str>, sql: &str) -> Result<Vec<Row>> {
        let failed = |error: &str| Error::new(format!("{}: {sql}: {error}", self.socket.display()));
        let answer = time::timeout(ANSWERED_WITHIN, self.ask_in_any_time(database, sql)).await;
        let answer = answer.map_err(|_| failed(&format!("no answer within {ANSWERED_WITHIN:?}")))?;
        answer.map_err(|error| failed(&error.to_string()))
    }

    async fn ask_in_any_time(&self, database: Option<&str>, sql: &str) -> mysql_async::Result<Vec<Row>> {
        let settings = OptsBuilder::default()
            .socket(Some(self.socket.display().to_string()))
            .user(Some(SUPERUSER))
            .db_name(database)
            .stmt_cache_size(0);
        let mut connection = Conn::new(settings).await?;
        let mut rows = Vec::new();
        let mut answer = connection.query_iter(sql).await?;
        while !answer.is_empty() {
            let set: Vec<mysql_async::Row> = answer.collect().await?;
            rows.extend(set.into_iter().map(|row| row.unwrap().iter().map(text).collect::<Row>()));
        }
        answer.drop_result().await?;
        connection.disconnect().await?;
        Ok(rows)
    }
}

/// A value of a text answer.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// An identifier, quoted.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text, quoted.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}
