//! One connection of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_session::Server;

use crate::engine::{Greeting, Waking, Wire};

/// A connection that a session has been taken over to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Arc<dyn Wire>,
    /// Counts the session's connections. A join names it, so that none of an older connection takes effect any more.
    pub(crate) number: u64,
    pub(crate) server: Server,
    /// The server's account of itself.
    pub(super) instance: String,
    /// How waiters are woken over it.
    pub(crate) waking: Waking,
    is_shut: AtomicBool,
}

impl Link {
    pub(crate) fn new(wire: Arc<dyn Wire>, number: u64, server: Server, greeting: Greeting) -> Self {
        let Greeting { instance, waking } = greeting;
        Self { wire, number, server, instance, waking, is_shut: AtomicBool::new(false) }
    }
}

impl lockkeeper_session::Link for Link {
    fn is_over(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst) || self.wire.is_over()
    }

    fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        self.wire.shut();
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn number(&self) -> u64 {
        self.number
    }
}
