//! The clients of one service.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{Backend, Result, ServiceUrl};
use lockkeeper_recipes::Keeper;

use crate::program;

/// Reads the clock by which everything is measured here; all processes of a machine share it.
pub fn now() -> BootInstant {
    SystemClock.now()
}

/// A kind of service: how its URLs are written, and its clients made.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Writes the URL of these servers, with these settings behind the `?`.
    pub url: fn(&[SocketAddr], &str) -> String,
    /// Takes the service that a URL names.
    pub open: fn(&ServiceUrl) -> Result<Arc<dyn Backend>>,
}

impl Service {
    /// Takes the service at these servers.
    pub fn backend(&self, servers: &[SocketAddr], settings: &str) -> Arc<dyn Backend> {
        self.backend_at(&(self.url)(servers, settings))
    }

    pub(crate) fn backend_at(&self, url: &str) -> Arc<dyn Backend> {
        (self.open)(&url.parse().expect("a URL")).expect("a good URL")
    }

    /// Makes a client.
    pub fn keeper(&self, servers: &[SocketAddr], settings: &str) -> Keeper {
        Keeper::new(self.backend(servers, settings))
    }

    /// Plays the other process, if this is one: a test binary's `main` begins with it.
    pub fn play(&self) -> Option<ExitCode> {
        program::play(self)
    }
}
