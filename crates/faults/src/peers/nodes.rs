//! Nodes that a server removes by itself, as Curator sees and keeps them. The other peers answer with errors.

use std::time::Duration;

use super::Peer;
use crate::{Error, Result};

impl Peer {
    /// Whether there is a node at `path`.
    pub async fn exists(&mut self, path: &str) -> Result<bool> {
        self.yes("exists", &[path], Duration::ZERO).await
    }

    /// Waits until there is no node at `path`; answers whether that was within the time.
    pub async fn is_gone(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("gone", &[path, &within.as_millis().to_string()], within).await
    }

    /// Makes a node that lives for `time_to_live` beyond the last touch, and keeps touching it: `PersistentTtlNode`.
    pub async fn keep_ttl_node(&mut self, path: &str, time_to_live: Duration) -> Result<()> {
        match self.yes("ttl-keep", &[path, &time_to_live.as_millis().to_string()], Duration::ZERO).await? {
            true => Ok(()),
            false => Err(Error::new(format!("Curator made no node at {path}"))),
        }
    }

    /// Touches such a node no more: `PersistentTtlNode.close`.
    pub async fn leave_ttl_node(&mut self, path: &str) -> Result<()> {
        self.ask("ttl-leave", &[path], Duration::ZERO).await.map(drop)
    }

    /// Counts from now on how often the data of a child of `parent` are set: `PathChildrenCache`.
    pub async fn count_updates(&mut self, parent: &str) -> Result<()> {
        self.ask("updates-count", &[parent], Duration::ZERO).await.map(drop)
    }

    /// How often they were set since.
    pub async fn updates(&mut self, parent: &str) -> Result<usize> {
        let fields = self.ask("updates", &[parent], Duration::ZERO).await?;
        let [count] = fields.as_slice() else { return Err(self.unexpected("updates", &fields)) };
        count.parse().map_err(|_| self.unexpected("updates", &fields))
    }
}
