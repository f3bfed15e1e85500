//! The service that a backend and its sessions use, and what they use it with.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;

use crate::Testing;

/// A service as its URL says, and where in it the queues lie. Its clones are the same.
#[derive(Clone, Debug)]
pub struct Site<C, L> {
    /// What the URL says.
    pub config: Arc<C>,
    /// Where the queues lie.
    pub layout: L,
    /// The clock of all deadlines.
    pub clock: Arc<dyn Clock>,
    /// What tests do to the client.
    pub testing: Testing,
}

impl<C, L> Site<C, L> {
    /// Takes a service that no test does harm to.
    pub fn new(config: C, layout: L, clock: Arc<dyn Clock>) -> Self {
        Self { config: Arc::new(config), layout, clock, testing: Testing::default() }
    }
}
