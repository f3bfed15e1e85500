//! Plain locks with `layout=setnx`: ours beside clients that take `SET key random NX PX` and give it back by comparing
//! and deleting. It is a separate binary, since it has long rounds.

mod operating;
#[path = "../support/service.rs"]
mod service;
mod turns;

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_core::Ticket;
use lockkeeper_faults::wait;
use lockkeeper_recipes::Keeper;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};

/// The timeout of most sessions: longer than anything that is to be told at once, and than a busy machine keeps any of
/// them waiting.
const SETTINGS: &str = "layout=setnx&session_timeout=30s";

/// A keeper whose locks are also plain ones.
fn keeper(address: SocketAddr) -> Keeper {
    keeper_with(address, SETTINGS)
}

fn keeper_with(address: SocketAddr, settings: &str) -> Keeper {
    service::REDIS.keeper(&[address], settings)
}

/// Waits until so many contenders are shown, theirs and ours.
async fn until_contenders(keeper: &Keeper, lock: &str, count: usize) {
    let look = async || (keeper.contenders(lock).await.expect("a look").len() == count).then_some(());
    wait::until(&format!("{count} contenders of {lock}"), SOON, look).await.expect("they come");
}

/// How often it asks for a lock that is held.
const RETRIED_EACH: Duration = Duration::from_millis(5);

const RELEASE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// One client, over its own connection.
#[derive(Clone)]
struct Peer {
    connection: MultiplexedConnection,
}

impl Peer {
    async fn connect(address: SocketAddr) -> Self {
        let client = Client::open(format!("redis://{address}")).expect("a URL");
        let waits = AsyncConnectionConfig::new().set_connection_timeout(Some(SOON)).set_response_timeout(Some(SOON));
        let connection = client.get_multiplexed_async_connection_with_config(&waits).await;
        Self { connection: connection.expect("a connection") }
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection.clone()).await.expect("an answer")
    }

    /// Tries to take a lock for this time; returns what it wrote.
    async fn try_lock(&self, key: &str, within_ms: u32) -> Option<String> {
        let random = Ticket::mint().expect("randomness").to_string();
        let taken: Option<String> = self.ask(&["SET", key, &random, "NX", "PX", &within_ms.to_string()]).await;
        taken.map(|_| random)
    }

    async fn lock(&self, key: &str, within_ms: u32) -> String {
        loop {
            if let Some(random) = self.try_lock(key, within_ms).await {
                return random;
            }
            tokio::time::sleep(RETRIED_EACH).await;
        }
    }

    /// Gives a lock back; returns whether it was still its own.
    async fn release(&self, key: &str, random: &str) -> bool {
        self.ask::<u64>(&["EVAL", RELEASE, "1", key, random]).await == 1
    }

    /// Counts up, as no two may at once: reads, rests and writes.
    async fn count_up(&self, counter: &str) {
        let number: Option<u64> = self.ask(&["GET", counter]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let _: String = self.ask(&["SET", counter, &(number.unwrap_or(0) + 1).to_string()]).await;
    }
}
