//! Locks of others on Redis: the usual one, a key with a deadline that is set if it is absent, by the crate that
//! carries ours too; and the crate `rslock`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult, Script, Value, cmd};
use rslock::LockManager;

/// After which a lock ends whose holder is gone, in milliseconds: the session timeout of ours.
const DEADLINE_MS: u64 = 20_000;

/// Deletes a key if it has this value still: its deadline may have passed, and another client may have it.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// `SET NX PX` and compare-and-delete over one connection.
#[derive(Clone)]
pub(crate) struct PlainLock {
    connection: MultiplexedConnection,
    key: &'static str,
    /// Differs from that of every other client.
    value: String,
    delete: Arc<Script>,
}

impl PlainLock {
    pub(crate) async fn open(address: SocketAddr, key: &'static str, number: u32) -> RedisResult<Self> {
        let client = Client::open(format!("redis://{address}/?protocol=resp3"))?;
        let connection = client.get_multiplexed_async_connection().await?;
        let value = format!("{:08x}{number:032x}", std::process::id());
        Ok(Self { connection, key, value, delete: Arc::new(Script::new(COMPARE_AND_DELETE)) })
    }

    /// Tries once; returns whether it is locked now.
    pub(crate) async fn try_lock(&mut self) -> RedisResult<bool> {
        let mut set = cmd("SET");
        set.arg(self.key).arg(&self.value).arg("NX").arg("PX").arg(DEADLINE_MS);
        let answer: Value = set.query_async(&mut self.connection).await?;
        Ok(answer == Value::Okay)
    }

    pub(crate) async fn release(&mut self) -> RedisResult<()> {
        let deleted: u32 = self.delete.key(self.key).arg(&self.value).invoke_async(&mut self.connection).await?;
        assert_eq!(deleted, 1, "its deadline has passed");
        Ok(())
    }
}

/// The crate `rslock` on one server.
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(LockManager::new(vec![format!("redis://{address}/?protocol=resp3")]))
    }

    pub(crate) async fn lock_and_release(&self, key: &str) -> Result<(), rslock::LockError> {
        self.0.lock(key, Duration::from_millis(DEADLINE_MS)).await?.release().await;
        Ok(())
    }
}
