//! Asks a server over its socket in the file system, where the superuser needs no password.

use std::path::PathBuf;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Value};

use super::{Server, Setup};
use crate::sql::{Row, Sql, Superuser};

/// Who may do all.
pub(super) const SUPERUSER: &str = "root";

/// The name of the socket.
pub(super) const SOCKET: &str = "socket";

impl Server {
    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.folder.join(SOCKET)
    }
}

impl Sql for Setup {
    const SCHEME: &str = "mariadb";
    const SUPERUSER: &str = SUPERUSER;
    const TIME: &str = "SELECT UNIX_TIMESTAMP()";

    async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> Result<Vec<Row>, String> {
        ask(superuser, database, sql).await.map_err(|error| error.to_string())
    }

    fn database(name: &str, encoding: &str) -> String {
        format!("CREATE DATABASE {} CHARACTER SET {}", identifier(name), literal(encoding))
    }

    fn user(&self, name: &str, password: &str) -> String {
        format!("CREATE USER {}@'%' IDENTIFIED BY {} {}", identifier(name), literal(password), certificate(self))
    }
}

async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> mysql_async::Result<Vec<Row>> {
    let settings = OptsBuilder::default()
        .socket(Some(superuser.folder.join(SOCKET).display().to_string()))
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

/// A value of a text answer.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// What users must show beside a password.
pub(super) const fn certificate(setup: &Setup) -> &'static str {
    if setup.certificates.is_some() { "REQUIRE X509" } else { "" }
}

/// An identifier, quoted.
fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text, quoted.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}
