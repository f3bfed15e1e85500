//! Curator's recipes beside locks: barriers and shared counts. The other peers answer with errors.

use std::time::Duration;

use super::Peer;
use crate::Result;

/// The last state that Curator's `SharedCount` was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharedCount {
    /// The number.
    pub value: i32,
    /// The version of its node.
    pub version: i32,
}

impl Peer {
    /// Sets a barrier: `DistributedBarrier.setBarrier`.
    pub async fn set_barrier(&mut self, path: &str) -> Result<()> {
        self.ask("barrier-set", &[path], Duration::ZERO).await.map(drop)
    }

    /// Removes a barrier: `DistributedBarrier.removeBarrier`.
    pub async fn remove_barrier(&mut self, path: &str) -> Result<()> {
        self.ask("barrier-remove", &[path], Duration::ZERO).await.map(drop)
    }

    /// Waits until a barrier is removed: `DistributedBarrier.waitOnBarrier`. Answers whether it was within the time.
    pub async fn wait_on_barrier(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("barrier-wait", &[path, &within.as_millis().to_string()], within).await
    }

    /// The number of a `SharedCount`, as far as Curator's watch has told it; made as 0 if it is not there.
    pub async fn shared_count(&mut self, path: &str) -> Result<SharedCount> {
        let fields = self.ask("number", &[path], Duration::ZERO).await?;
        let numbers: Option<Vec<i32>> = fields.iter().map(|field| field.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[value, version]) => Ok(SharedCount { value, version }),
            _ => Err(self.unexpected("number", &fields)),
        }
    }

    /// Sets the number, from any value: `setCount`.
    pub async fn set_shared_count(&mut self, path: &str, value: i32) -> Result<()> {
        self.ask("number-set", &[path, &value.to_string()], Duration::ZERO).await.map(drop)
    }

    /// Sets the number unless it was set since [`shared_count`](Self::shared_count) was last asked: `trySetCount`.
    /// Answers whether it did.
    pub async fn try_set_shared_count(&mut self, path: &str, value: i32) -> Result<bool> {
        self.yes("number-try-set", &[path, &value.to_string()], Duration::ZERO).await
    }

    /// Waits until the number was set after [`shared_count`](Self::shared_count) was last asked: Curator's listener.
    /// Answers whether it was within the time.
    pub async fn shared_count_changed(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("number-changed", &[path, &within.as_millis().to_string()], within).await
    }
}
