//! Asks a server over its socket in the file system, where the superuser needs no password.

use std::path::PathBuf;

use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use super::{Server, Setup};
use crate::sql::{Row, Sql, Superuser};

/// Who may do all, and the database that every server has.
pub(super) const SUPERUSER: &str = "postgres";
const DATABASE: &str = "postgres";

impl Server {
    /// The folder of its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.folder.clone()
    }
}

impl Sql for Setup {
    const SCHEME: &str = "postgres";
    const SUPERUSER: &str = SUPERUSER;
    const TIME: &str = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";

    async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> Result<Vec<Row>, String> {
        ask(superuser, database.unwrap_or(DATABASE), sql).await.map_err(|error| text(&error))
    }

    fn database(name: &str, encoding: &str) -> String {
        let (name, encoding) = (identifier(name), literal(encoding));
        format!("CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0")
    }

    fn user(&self, name: &str, password: &str) -> String {
        format!("CREATE USER {} PASSWORD {}", identifier(name), literal(password))
    }
}

async fn ask(superuser: &Superuser, database: &str, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    let mut config = Config::new();
    config.host_path(&superuser.folder).port(superuser.port).user(SUPERUSER).dbname(database);
    // A test may limit what the role's statements take; the harness's own are not what it tries.
    config.application_name("superuser of a test").options("-c statement_timeout=0 -c lock_timeout=0");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::select! {
        answer = client.simple_query(sql) => answer.map(rows),
        // It ends only with an error, as the client is still there.
        ended = connection => ended.map(|()| Vec::new()),
    }
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<Row> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect()).collect()
}

/// What the server said, with its code, or what went wrong before it said anything.
fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{}: {} ({})", said.severity(), said.message(), said.code().code()),
        None => error.to_string(),
    }
}

/// An identifier, quoted.
fn identifier(name: &str) -> String {
    format!(r#""{}""#, name.replace('"', r#""""#))
}

/// A text, quoted.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
