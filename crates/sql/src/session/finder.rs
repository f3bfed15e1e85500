//! Tries the servers of the URL in their order, and connects to the first that serves locks.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Effect, Failure};

use crate::engine::{Connected, Engine};
use crate::url::Config;

/// Says which server is tried next. A round tries each once.
pub(crate) struct Finder {
    engine: Arc<dyn Engine>,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    /// The place of the server that is tried next.
    next: usize,
    /// What is told if the round ends without success.
    trouble: Option<Failure>,
}

impl Finder {
    pub(crate) fn new(engine: Arc<dyn Engine>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        Self { engine, config, clock, next: 0, trouble: None }
    }

    /// Begins a round, with the first server of the URL as all clients do: if two serve, against the rules, all still
    /// meet at one.
    pub(crate) fn begin_round(&mut self) {
        self.next = 0;
        self.trouble = None;
    }

    /// Returns the place of the server that is tried next, and until when; `None` if the round is over. How it went is
    /// to be [noted](Self::note) if it failed.
    pub(crate) fn next(&mut self, deadline: BootInstant) -> Option<(usize, BootInstant)> {
        let left = self.config.servers.len().checked_sub(self.next).filter(|left| *left > 0)?;
        let server = self.next;
        self.next += 1;
        // Each of those that are left has as much time: one that is cut off gives no answer at all.
        let now = self.clock.now();
        let share = deadline.saturating_duration_since(now) / u32::try_from(left).unwrap_or(u32::MAX);
        Some((server, now.saturating_add(share)))
    }

    /// Connects to a server.
    pub(crate) async fn connect(&self, server: usize, deadline: BootInstant) -> Result<Connected, Failure> {
        tokio::select! {
            biased;
            connected = self.engine.connect(server, deadline) => connected,
            () = self.clock.sleep_until(deadline) => Err(Failure::late(Effect::None)),
        }
    }

    /// Notes why the server that was tried last is of no use.
    pub(crate) fn note(&mut self, failure: Failure) {
        let server = self.next.checked_sub(1).and_then(|last| self.config.servers.get(last));
        let failure = match server {
            Some(server) => failure.at(server),
            None => failure,
        };
        // What does not pass by itself is what a user has to know.
        if self.trouble.as_ref().is_none_or(Failure::is_passing) {
            self.trouble = Some(failure);
        }
    }

    /// Returns why the round found nothing.
    pub(crate) fn trouble(&self) -> Failure {
        self.trouble.clone().unwrap_or_else(|| Failure::broken(Effect::None))
    }
}
