//! Locks on Redis: the command `SET NX PX`, tried again while the key is there, and the crate `rslock`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Script, Value, cmd};
use rslock::LockManager;

use crate::load::Outcome;
use crate::load::{Crowd, CrowdGrants};

/// After which a lock ends whose holder is gone, in milliseconds: the session timeout of ours.
pub(super) const DEADLINE_MS: u64 = 20_000;

/// Deletes a key if it has this value still: its deadline may have passed, and another client may have it.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// `SET NX PX` and compare-and-delete over one connection.
#[derive(Clone, Debug)]
pub(crate) struct SetNx {
    connection: MultiplexedConnection,
    key: &'static str,
    /// Differs from that of every other client.
    value: String,
    delete: Arc<Script>,
}

impl SetNx {
    pub(crate) async fn open(address: SocketAddr, key: &'static str, number: u32) -> Outcome<Self> {
        let client = Client::open(format!("redis://{address}/?protocol=resp3"))?;
        let connection = client.get_multiplexed_async_connection().await?;
        let value = format!("{:08x}{number:032x}", std::process::id());
        Ok(Self { connection, key, value, delete: Arc::new(Script::new(COMPARE_AND_DELETE)) })
    }

    /// Tries once; returns whether it is locked now.
    pub(crate) async fn try_lock(&mut self) -> Outcome<bool> {
        let mut set = cmd("SET");
        set.arg(self.key).arg(&self.value).arg("NX").arg("PX").arg(DEADLINE_MS);
        let answer: Value = set.query_async(&mut self.connection).await?;
        Ok(answer == Value::Okay)
    }

    /// Locks and releases what no other client wants.
    pub(crate) async fn lock_and_release(&mut self) -> Outcome<()> {
        if !self.try_lock().await? {
            return Err("another client has the lock".into());
        }
        self.release().await
    }

    pub(crate) async fn release(&mut self) -> Outcome<()> {
        let deleted: u32 = self.delete.key(self.key).arg(&self.value).invoke_async(&mut self.connection).await?;
        if deleted == 1 { Ok(()) } else { Err("the deadline of the key has passed".into()) }
    }
}

/// Lets so many connections want one key for this time; each tries again at once.
pub(crate) async fn crowd(
    address: SocketAddr,
    key: &'static str,
    connections: u32,
    time: Duration,
) -> Outcome<CrowdGrants> {
    let mut locks = Vec::new();
    for number in 0..connections {
        locks.push(SetNx::open(address, key, number).await?);
    }
    let mut crowd = Crowd::new();
    for lock in locks {
        crowd.add(move || {
            let mut lock = lock.clone();
            async move {
                while !lock.try_lock().await? {}
                lock.release().await
            }
        });
    }
    crowd.end_after(time).await
}

/// One client.
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(LockManager::new(vec![format!("redis://{address}/?protocol=resp3")]))
    }

    pub(crate) async fn lock_and_release(&self, key: &str) -> Outcome<()> {
        self.0.lock(key, Duration::from_millis(DEADLINE_MS)).await?.release().await;
        Ok(())
    }
}
