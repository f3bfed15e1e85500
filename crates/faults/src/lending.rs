//! Servers that go from test to test: each is one test's alone, and another one's when that has ended.
//!
//! Starting one takes longer than most cases of a suite. How it is emptied in between is left to the suite.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// The servers of a suite that no test has now.
#[derive(Debug)]
pub struct Servers<Server>(Mutex<Vec<Server>>);

impl<Server> Servers<Server> {
    /// Makes a place for servers, without one.
    #[expect(clippy::new_without_default, reason = "it is made in a static, where no default can be called")]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes a server that no test has, with what the last one left in it; `None` if one must be started.
    pub fn take(&self) -> Option<Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Lends a server to a test; it comes back when it is dropped.
    pub const fn lend(&'static self, server: Server) -> Lent<Server> {
        Lent { server: Some(server), to: self }
    }

    /// Drops those that no test has: the end of a process drops no static.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A server that a test has alone.
#[derive(Debug)]
pub struct Lent<Server: 'static> {
    /// `None` while it is dropped.
    server: Option<Server>,
    to: &'static Servers<Server>,
}

impl<Server> Deref for Lent<Server> {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().expect("it is there until it is dropped")
    }
}

impl<Server> DerefMut for Lent<Server> {
    fn deref_mut(&mut self) -> &mut Server {
        self.server.as_mut().expect("it is there until it is dropped")
    }
}

impl<Server> Drop for Lent<Server> {
    fn drop(&mut self) {
        self.to.0.lock().unwrap_or_else(PoisonError::into_inner).extend(self.server.take());
    }
}
