//! A node of ZooKeeper that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! Without a URL the example starts a server for itself.
//!
//! ```sh
//! cargo run -p lockkeeper --features zookeeper --example fenced_zookeeper -- zk://h1,h2,h3
//! ```

mod stopped;

use std::env;
use std::error::Error;

use lockkeeper::fence::zookeeper::{Client, Config, NewNode, is_overtaken, transaction};
use lockkeeper::{Hold, ServiceUrl};
use lockkeeper_zk_server::EmbeddedServer;

/// The data that the lock guards.
const NODE: &str = "/fenced-example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, _)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&locks, hold, line).await).await;
    }
    let server = EmbeddedServer::start().await?;
    let url = env::args().nth(1).unwrap_or_else(|| server.url());
    let locks: ServiceUrl = format!("{url}?{}", stopped::SESSION_TIMEOUT).parse()?;
    let client = Client::connect(&Config::from_url(&locks)?).await?;
    client.create(NewNode::persistent(NODE)).await?;

    stopped::demonstrate(&locks, NODE, async |hold, line| write(&locks, hold, line).await).await?;

    assert_eq!(client.get_data(NODE).await?.0, "by the next holder");
    client.delete(NODE, None).await?;
    client.close().await?;
    server.shutdown().await;
    Ok(())
}

/// Sets the node's data, unless the lock is lost.
async fn write(locks: &ServiceUrl, hold: &Hold, line: &str) -> stopped::Written {
    let config = Config::from_url(locks)?;
    let client = Client::connect(&config).await?;
    let written = transaction(&client, &config, hold)?.set_data(NODE, line.to_owned(), None).commit().await;
    client.close().await?;
    match written {
        Ok(_) => Ok("written"),
        Err(error) if is_overtaken(&error, &config, hold) => Ok("refused: the lock is lost"),
        Err(error) => Err(error.into()),
    }
}
