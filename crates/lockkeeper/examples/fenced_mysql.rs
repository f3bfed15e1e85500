//! A database of MariaDB or MySQL that refuses a holder which was overtaken while it was stopped in the middle of its
//! work.
//!
//! The locks are on the same server, which they need not be. The example makes the table `ledger`, and removes it.
//!
//! ```sh
//! cargo run -p lockkeeper --features fence-mysql,mysql --example fenced_mysql -- mysql://me@localhost/test
//! ```

mod stopped;

use std::env;
use std::error::Error;

use lockkeeper::fence::sql::{BindError, MYSQL, bind};
use lockkeeper::{Hold, ServiceUrl};
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, TxOpts};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, database)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&database, hold, line).await).await;
    }
    let database = env::args().nth(1).ok_or("the URL of a database is missing")?;
    // The locks have a database for themselves.
    let (server, _) = database.rsplit_once('/').ok_or("the URL names no database")?;
    let locks: ServiceUrl = format!("{server}?{}", stopped::SESSION_TIMEOUT).parse()?;
    let mut connection = connect(&database).await?;
    connection.query_drop(MYSQL.table).await?;
    connection.query_drop("CREATE TABLE ledger (line TEXT NOT NULL)").await?;

    stopped::demonstrate(&locks, &database, async |hold, line| write(&database, hold, line).await).await?;

    let lines: Vec<String> = connection.query("SELECT line FROM ledger").await?;
    assert_eq!(lines, ["by the next holder"]);
    connection.query_drop("DROP TABLE ledger").await?;
    connection.disconnect().await?;
    Ok(())
}

/// Adds a line to the ledger, unless the holder was overtaken.
async fn write(database: &str, hold: &Hold, line: &str) -> stopped::Written {
    let mut connection = connect(database).await?;
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    match bind(&mut transaction, hold).await {
        Err(BindError::Overtaken { .. }) => return Ok("refused: the token was overtaken"),
        bound => bound?,
    }
    transaction.exec_drop("INSERT INTO ledger (line) VALUES (?)", (line,)).await?;
    transaction.commit().await?;
    Ok("written")
}

async fn connect(database: &str) -> Result<Conn, Box<dyn Error>> {
    Ok(Conn::new(Opts::from_url(database)?).await?)
}
