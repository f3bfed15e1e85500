//! The crate `rslock` on one server.

use std::net::SocketAddr;
use std::time::Duration;

use rslock::LockManager;

use super::set_nx::DEADLINE_MS;
use crate::Outcome;

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
