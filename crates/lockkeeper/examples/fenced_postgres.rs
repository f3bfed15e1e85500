//! A database of PostgreSQL that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! The locks are in the same database, which they need not be. The example makes the table `ledger`, and removes it.
//!
//! ```sh
//! cargo run -p lockkeeper --features fence-postgres,postgres --example fenced_postgres -- postgres://me@localhost/test
//! ```

mod stopped;

use std::env;
use std::error::Error;

use lockkeeper::fence::sql::{BindError, POSTGRES, bind};
use lockkeeper::{Hold, ServiceUrl};
use tokio_postgres::{Client, NoTls};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, database)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&database, hold, line).await).await;
    }
    let database = env::args().nth(1).ok_or("the URL of a database is missing")?;
    let locks: ServiceUrl = format!("{database}?{}", stopped::SESSION_TIMEOUT).parse()?;
    let client = connect(&database).await?;
    client.batch_execute(POSTGRES.table).await?;
    client.batch_execute("CREATE TABLE ledger (line text NOT NULL)").await?;

    stopped::demonstrate(&locks, &database, async |hold, line| write(&database, hold, line).await).await?;

    let lines: String = client.query_one("SELECT string_agg(line, ',') FROM ledger", &[]).await?.get(0);
    assert_eq!(lines, "by the next holder");
    client.batch_execute("DROP TABLE ledger").await?;
    Ok(())
}

/// Adds a line to the ledger, unless the holder was overtaken.
async fn write(database: &str, hold: &Hold, line: &str) -> stopped::Written {
    let mut client = connect(database).await?;
    let mut transaction = client.transaction().await?;
    match bind(&mut transaction, hold).await {
        Err(BindError::Overtaken { .. }) => return Ok("refused: the token was overtaken"),
        bound => bound?,
    }
    transaction.execute("INSERT INTO ledger (line) VALUES ($1)", &[&line]).await?;
    transaction.commit().await?;
    Ok("written")
}

async fn connect(database: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
