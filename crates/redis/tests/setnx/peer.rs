//! A client of plain locks, as most programs have one: `SET key random NX PX`, and a release that compares.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_core::Ticket;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};

/// How often it asks for a lock that is held.
const RETRIED_EACH: Duration = Duration::from_millis(5);

const RELEASE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// One client, over its own connection.
#[derive(Clone)]
pub(crate) struct Peer {
    connection: MultiplexedConnection,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let client = Client::open(format!("redis://{address}")).expect("a URL");
        let waits = AsyncConnectionConfig::new().set_connection_timeout(Some(SOON)).set_response_timeout(Some(SOON));
        let connection = client.get_multiplexed_async_connection_with_config(&waits).await;
        Self { connection: connection.expect("a connection") }
    }

    /// Sends a command.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection.clone()).await.expect("an answer")
    }

    /// Tries to take a lock for this time; returns what it wrote.
    pub(crate) async fn try_lock(&self, key: &str, within_ms: u32) -> Option<String> {
        let random = Ticket::mint().expect("randomness").to_string();
        let taken: Option<String> = self.ask(&["SET", key, &random, "NX", "PX", &within_ms.to_string()]).await;
        taken.map(|_| random)
    }

    pub(crate) async fn lock(&self, key: &str, within_ms: u32) -> String {
        loop {
            if let Some(random) = self.try_lock(key, within_ms).await {
                return random;
            }
            tokio::time::sleep(RETRIED_EACH).await;
        }
    }

    /// Gives a lock back; returns whether it was still its own.
    pub(crate) async fn release(&self, key: &str, random: &str) -> bool {
        self.ask::<u64>(&["EVAL", RELEASE, "1", key, random]).await == 1
    }

    /// Counts up, as no two may at once: reads, rests and writes.
    pub(crate) async fn count_up(&self, counter: &str) {
        let number: Option<u64> = self.ask(&["GET", counter]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let _: String = self.ask(&["SET", counter, &(number.unwrap_or(0) + 1).to_string()]).await;
    }
}
