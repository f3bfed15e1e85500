//! A key of Redis that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! ```sh
//! cargo run -p lockkeeper --features redis --example fenced_redis -- redis://127.0.0.1:6379
//! ```

mod stopped;

use std::env;
use std::error::Error;

use lockkeeper::fence::redis::{SET, token_key, token_text};
use lockkeeper::{Hold, ServiceUrl};
use redis::aio::MultiplexedConnection;

/// The data that the lock guards.
const KEY: &str = "fenced-example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, url)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&url, hold, line).await).await;
    }
    let url = env::args().nth(1).ok_or("the URL of a server is missing")?;
    let locks: ServiceUrl = format!("{url}?{}", stopped::SESSION_TIMEOUT).parse()?;

    stopped::demonstrate(&locks, &url, async |hold, line| write(&url, hold, line).await).await?;

    let mut connection = connect(&url).await?;
    let data: String = redis::cmd("GET").arg(KEY).query_async(&mut connection).await?;
    assert_eq!(data, "by the next holder");
    // Only because nothing writes it any more: with its key a fence forgets.
    let keys = [KEY.to_owned(), token_key(&"ledger".parse()?, KEY)?];
    redis::cmd("DEL").arg(&keys).exec_async(&mut connection).await?;
    Ok(())
}

/// Sets the key, unless the holder was overtaken.
async fn write(url: &str, hold: &Hold, line: &str) -> stopped::Written {
    let greatest: Option<String> = redis::Script::new(SET)
        .key(token_key(hold.name(), KEY)?)
        .key(KEY)
        .arg(token_text(hold.fencing_token()))
        .arg(line)
        .invoke_async(&mut connect(url).await?)
        .await?;
    Ok(if greatest.is_none() { "written" } else { "refused: the token was overtaken" })
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}
