//! A file of SQLite that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! The statements go to the program `sqlite3`, which cannot branch: `changes()` is 0 where the token was overtaken.
//!
//! ```sh
//! cargo run -p lockkeeper --example fenced_sqlite
//! ```

mod stopped;

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lockkeeper::fence::sql::SQLITE;
use lockkeeper::{Hold, ServiceUrl};
use lockkeeper_zk_server::EmbeddedServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, path)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&path, hold, line)).await;
    }
    let server = EmbeddedServer::start().await?;
    let locks: ServiceUrl = format!("{}?{}", server.url(), stopped::SESSION_TIMEOUT).parse()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ledger").to_string_lossy().into_owned();
    sqlite(&path, &format!("{};\nCREATE TABLE ledger (line TEXT NOT NULL);", SQLITE.table))?;

    stopped::demonstrate(&locks, &path, async |hold, line| write(&path, hold, line)).await?;

    assert_eq!(sqlite(&path, "SELECT line FROM ledger;")?, "by the next holder\n");
    server.shutdown().await;
    Ok(())
}

/// Adds a line to the ledger, unless the holder was overtaken.
fn write(path: &str, hold: &Hold, line: &str) -> stopped::Written {
    let (name, grant, bind) = (hold.name().encoded(), hold.fencing_token().as_i64(), SQLITE.bind);
    let answer = sqlite(
        path,
        &format!(
            ".parameter set ?1 \"'{name}'\"\n.parameter set ?2 {grant}\nBEGIN IMMEDIATE;\n{bind};\n\
             INSERT INTO ledger (line) SELECT '{line}' WHERE changes() = 1;\nCOMMIT;"
        ),
    )?;
    Ok(if answer == "1\n" { "written" } else { "refused: the token was overtaken" })
}

fn sqlite(path: &str, statements: &str) -> Result<String, Box<dyn Error>> {
    let mut child =
        Command::new("sqlite3").args(["-bail", path]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("it is piped")?.write_all(statements.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("sqlite3: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
