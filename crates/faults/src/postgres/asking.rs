//! Asks a server over its socket in the file system, where the superuser needs no password.

use std::path::PathBuf;

use tokio::time;
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use crate::daemon::Row;
use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// Who may do all, and the database that every server has.
pub(super) const SUPERUSER: &str = "postgres";
pub(super) const DATABASE: &str = "postgres";

/// The way in of the superuser: the folder of the socket, and the port that names it.
#[derive(Clone, Debug)]
pub(super) struct Superuser {
    pub(super) folder: PathBuf,
    pub(super) port: u16,
}

impl Superuser {
    /// Sends statements over a new connection; returns the rows of all of them.
    pub(super) async fn ask(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        let failed = |error: &str| Error::new(format!("port {}, database {database}: {sql}: {error}", self.port));
        let asking = self.ask_in_any_time(database, sql);
        let answer = time::timeout(ANSWERED_WITHIN, asking).await;
        let answer = answer.map_err(|_| failed(&format!("no answer within {ANSWERED_WITHIN:?}")))?;
        answer.map_err(|error| failed(&text(&error)))
    }

    async fn ask_in_any_time(&self, database: &str, sql: &str) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let mut config = Config::new();
        config.host_path(&self.folder).port(self.port).user(SUPERUSER).dbname(database);
        // A test may limit what the role's statements take; the harness's own are not what it tries.
        config.application_name("superuser of a test").options("-c statement_timeout=0 -c lock_timeout=0");
        let (client, connection) = config.connect(NoTls).await?;
        tokio::select! {
            answer = client.simple_query(sql) => answer.map(rows),
            // It ends only with an error, as the client is still there.
            ended = connection => ended.map(|()| Vec::new()),
        }
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
pub(super) fn identifier(name: &str) -> String {
    format!(r#""{}""#, name.replace('"', r#""""#))
}

/// A text, quoted.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
