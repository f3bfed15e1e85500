//! Looks at a running server's state, within its process.

use crate::machine::Counters;
use crate::server::control::{Inspection, ServerCommand};
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

    /// Its metrics in the text format of Prometheus, version 0.0.4; empty once it has stopped.
    ///
    /// `lockkeeper_server_request_seconds` and `lockkeeper_server_fsync_seconds` are histograms, the former for each
    /// kind of request from its reading until its answer leaves; `lockkeeper_server_refused_total` counts what was
    /// refused, by the reason. The others are counts of what there is: connections, sessions, watches, nodes, bytes,
    /// descriptors. It takes some ten microseconds of the server's time.
    pub async fn metrics(&self) -> String {
        self.ask(ServerCommand::Expose).await.unwrap_or_default()
    }

    async fn inspect(&self) -> Option<Inspection> {
        self.ask(ServerCommand::Inspect).await
    }
}
