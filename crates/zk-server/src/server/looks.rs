//! What a running server tells of its state, within its process.

use crate::machine::Counters;
use crate::server::control::{Control, Inspection};
use crate::server::embedded::EmbeddedServer;

impl EmbeddedServer {
    /// The packets so far, as Apache counts them.
    pub async fn counters(&self) -> Counters {
        self.inspect().await.map(|seen| seen.counters).unwrap_or_default()
    }

    /// The sessions there are.
    pub async fn session_ids(&self) -> Vec<i64> {
        self.inspect().await.map(|seen| seen.session_ids).unwrap_or_default()
    }

    /// How many watches are set.
    pub async fn watches_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.watches_count).unwrap_or_default()
    }

    /// How many nodes there are, the four of the service included.
    pub async fn nodes_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.nodes_count).unwrap_or_default()
    }

    /// How many connections there are.
    pub async fn connections_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.connections_count).unwrap_or_default()
    }

    /// The number of the latest transaction.
    pub async fn zxid(&self) -> i64 {
        self.inspect().await.map(|seen| seen.zxid).unwrap_or_default()
    }

    async fn inspect(&self) -> Option<Inspection> {
        self.ask(Control::Inspect).await
    }
}
