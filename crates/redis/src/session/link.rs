//! One connection of a session.

use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::ConnectionNumber;

use crate::connection::Connection;

/// A connection that a session has been taken over to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// Counts the session's connections. A join names it, so that none of an older connection takes effect any more.
    pub(crate) number: u64,
    is_shut: AtomicBool,
}

impl Link {
    pub(super) fn new(connection: Connection, number: u64) -> Self {
        Self { connection, number, is_shut: AtomicBool::new(false) }
    }

    pub(crate) const fn connection_number(&self) -> ConnectionNumber {
        ConnectionNumber(self.number)
    }

    /// Ends its use: what is called from now on waits for the next one.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        self.connection.shut();
    }
}

impl lockkeeper_session::Link for Link {
    fn is_over(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst) || self.connection.is_over()
    }
}
