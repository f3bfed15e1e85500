//! A connection of a session.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::ConnectionNumber;

use crate::Server;

/// A connection of a session.
pub trait Link: Send + Sync + 'static {
    /// Whether nothing can be sent over it any more.
    fn is_over(&self) -> bool;

    /// Ends its use: what is called from now on waits for the next one.
    fn shut(&self);

    /// The server at its other end.
    fn server(&self) -> &Server;

    /// Counts the session's connections. What names it has no effect any more once a later one has the session.
    fn number(&self) -> u64;

    /// How views name it.
    fn connection_number(&self) -> ConnectionNumber {
        ConnectionNumber(self.number())
    }
}

/// A connection that can be looked over.
pub trait Lookable: Send + Sync + 'static {
    /// Whether nothing can be sent over it any more.
    fn is_over(&self) -> bool;

    /// Ends its use.
    fn shut(&self);

    /// The server at its other end.
    fn server(&self) -> &Server;
}

/// A connection that a session was taken over to, with what was found out when it was.
#[derive(Debug)]
pub struct Linked<C, F = ()> {
    /// The connection.
    pub connection: Arc<C>,
    /// Counts the session's connections. A join names it, so that none of an older connection takes effect any more.
    pub number: u64,
    found: F,
    is_shut: AtomicBool,
}

impl<C: Lookable, F> Linked<C, F> {
    /// Takes a connection for that of a session.
    pub fn new(connection: C, number: u64, found: F) -> Arc<Self> {
        Arc::new(Self { connection: Arc::new(connection), number, found, is_shut: AtomicBool::new(false) })
    }
}

impl<C: Lookable, F: Send + Sync + 'static> Link for Linked<C, F> {
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

/// What was found out.
impl<C, F> Deref for Linked<C, F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.found
    }
}
