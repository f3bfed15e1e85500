//! What a running server says of itself, within its own process.

use crate::machine::Counters;
use crate::server::control::{Control, Inspection};
use crate::server::embedded::EmbeddedServer;

impl EmbeddedServer {
    /// The packets so far, as Apache counts them; zero once the server has stopped.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn counters(&self) -> Counters {
        self.inspect().await.map(|seen| seen.counters).unwrap_or_default()
    }

    /// The sessions there are.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn session_ids(&self) -> Vec<i64> {
        self.inspect().await.map(|seen| seen.session_ids).unwrap_or_default()
    }

    /// How many watches are set.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn watches_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.watches_count).unwrap_or_default()
    }

    /// How many nodes there are, the four of the service included.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn nodes_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.nodes_count).unwrap_or_default()
    }

    /// How many connections there are.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn connections_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.connections_count).unwrap_or_default()
    }

    /// The number of the latest transaction; 0 once the server has stopped.
    ///
    /// # Errors
    ///
    /// None; the answer of a server that has stopped is the empty one.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// What was asked of the server before has taken effect.
    ///
    /// # On connection loss
    ///
    /// Has none to lose: the handle speaks to the server within this process.
    pub async fn zxid(&self) -> i64 {
        self.inspect().await.map(|seen| seen.zxid).unwrap_or_default()
    }

    async fn inspect(&self) -> Option<Inspection> {
        self.ask(Control::Inspect).await
    }
}
