//! The simple lock without a queue, and what it costs: all clients watch one node, so each release wakes all of them.
//!
//! The client that makes the one ephemeral node holds the lock; all others watch it and try again when it is gone. The
//! server's own count of packets shows the wake-ups of both locks for the same work: each client takes the lock once.
//! The wake-ups of the simple lock grow with the square of the number of clients, those of the queue with the number.
//!
//! `cargo run --release -p lockkeeper-zookeeper --example simple_lock -- 24`

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_faults::zookeeper::words::Packets;
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_proto::message::ErrorCode;
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};
use tokio::sync::Barrier;

/// How many clients there are if the command line does not say.
const CLIENTS_DEFAULT: usize = 24;

/// The most clients: each has a separate connection, and the simple lock's packets grow with the square.
const CLIENTS_MAX: usize = 200;

/// How long each holds the lock.
const WORK: Duration = Duration::from_millis(5);

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let clients = match std::env::args().nth(1) {
        Some(text) => text.parse::<usize>()?.clamp(1, CLIENTS_MAX),
        None => CLIENTS_DEFAULT,
    };
    let server = Server::standalone(Setup::new()).await.map_err(|error| error.to_string())?;
    let config: Config = Config::from_url(&format!("zk://{}", server.address()).parse()?)?;
    println!("{clients} clients, each takes the lock once and holds it for {} ms:", WORK.as_millis());
    let simple = wake_ups(&server, clients, |_| simple_lock(config.clone())).await?;
    println!("  the simple lock: {simple:>6} wake-ups");
    let address = server.address().to_string();
    let queue = wake_ups(&server, clients, |_| lock_in_a_queue(address.clone())).await?;
    println!("  the queue:       {queue:>6} wake-ups");
    Ok(())
}

/// Has this many clients connect, then all take the lock once; returns how many notifications the server sent
/// meanwhile.
async fn wake_ups<Ready, Run>(server: &Server, clients: usize, connect: impl Fn(usize) -> Ready) -> Outcome<u64>
where
    Ready: Future<Output = Outcome<Run>>,
    Run: Future<Output = Outcome<()>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(clients));
    let mut ready = Vec::new();
    for number in 0..clients {
        ready.push(connect(number).await?);
    }
    let before = server.packets().await.map_err(|error| error.to_string())?;
    let mut running = Vec::new();
    for run in ready {
        let start = start.clone();
        running.push(tokio::spawn(async move {
            start.wait().await;
            run.await
        }));
    }
    for task in running {
        task.await??;
    }
    let after = server.packets().await.map_err(|error| error.to_string())?;
    Ok(unasked(after).saturating_sub(unasked(before)))
}

/// What the server sent without a request: every request has one answer.
fn unasked(packets: Packets) -> u64 {
    packets.sent.saturating_sub(packets.received)
}

/// The lock as it is often written first.
async fn simple_lock(config: Config) -> Outcome<impl Future<Output = Outcome<()>> + Send> {
    const NODE: &str = "/simple-lock";
    let client = Client::connect(&config).await?;
    Ok(async move {
        loop {
            match client.create(NewNode::ephemeral(NODE)).await {
                Ok(_) => break,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {
                    let (there, gone) = client.exists_and_watch(NODE).await?;
                    if there.is_some() {
                        gone.await?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(WORK).await;
        client.delete(NODE, None).await?;
        client.close().await?;
        Ok(())
    })
}

/// The same work under a lock with a queue.
async fn lock_in_a_queue(address: String) -> Outcome<impl Future<Output = Outcome<()>> + Send> {
    let backend = ZooKeeperBackend::open(&format!("zk://{address}").parse()?)?;
    let keeper = Keeper::new(Arc::new(backend));
    // Opens the session, so that both locks begin alike.
    keeper.mutex("warm-up")?.lock().await?.release().await?;
    Ok(async move {
        let guard = keeper.mutex("queue")?.lock().await?;
        tokio::time::sleep(WORK).await;
        guard.release().await?;
        keeper.close().await?;
        Ok(())
    })
}
