//! A file that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! ```sh
//! cargo run -p lockkeeper --example fenced_file
//! ```

mod stopped;

use std::error::Error;

use lockkeeper::fence::{FencedFile, Seen};
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

    stopped::demonstrate(&locks, &path, async |hold, line| write(&path, hold, line)).await?;

    assert_eq!(FencedFile::new(&path).read()?.as_deref(), Some(&b"by the next holder"[..]));
    server.shutdown().await;
    Ok(())
}

/// Replaces the data of the file, unless the holder was overtaken.
fn write(path: &str, hold: &Hold, line: &str) -> stopped::Written {
    match FencedFile::new(path).durable().write(hold.name(), hold.fencing_token(), line.as_bytes())? {
        Seen::Passes => Ok("written"),
        Seen::Stale(_) => Ok("refused: the token was overtaken"),
    }
}
