//! One connection of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_session::Server;

use crate::connection::Connection;

/// A connection that a session has been taken over to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Arc<Connection>,
    /// Counts the session's connections. A join names it, so that none of an older connection takes effect any more.
    pub(crate) number: u64,
    is_shut: AtomicBool,
}

impl Link {
    pub(super) fn new(connection: Connection, number: u64) -> Self {
        Self { connection: Arc::new(connection), number, is_shut: AtomicBool::new(false) }
    }
}

impl lockkeeper_session::Link for Link {
    fn is_over(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst) || self.connection.is_over()
    }

    fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        self.connection.shut();
    }

    fn server(&self) -> &Server {
        self.connection.server()
    }

    fn number(&self) -> u64 {
        self.number
    }
}
