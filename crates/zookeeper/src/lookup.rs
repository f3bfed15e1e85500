//! Resolving the names of the servers, each in a time of its own: a slow one keeps no other waiting.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use tokio::task::JoinSet;

use crate::config::Server;
use crate::dial::Dial;

/// How long the others have beside the first name that is resolved, so that a round has its order where all are as fast.
const BESIDE_MAX: Duration = Duration::from_millis(100);

/// The addresses of one server, or why there are none.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Which of the servers it is.
    at: usize,
    pub(crate) server: Server,
    pub(crate) resolved: io::Result<Vec<Server>>,
}

/// The lookups of one round that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    running: JoinSet<Lookup>,
}

impl Lookups {
    /// Asks for the addresses of all servers at once, for so long.
    pub(crate) fn begin(dial: &Arc<dyn Dial>, clock: &Arc<dyn Clock>, servers: &[Server], limit: Duration) -> Self {
        let mut running = JoinSet::new();
        for (at, server) in servers.iter().cloned().enumerate() {
            let (clock, resolving) = (clock.clone(), dial.resolve(&server));
            running.spawn(async move {
                let resolved = within(&clock, limit, "the name was not resolved", resolving).await;
                Lookup { at, server, resolved }
            });
        }
        Self { running }
    }

    /// Waits for the first server with an address, and a little for those beside it: all that is known by then, in the order
    /// of the servers.
    pub(crate) async fn first(&mut self, clock: &Arc<dyn Clock>) -> Vec<Lookup> {
        let mut known: Vec<Lookup> = Vec::new();
        let mut beside = clock.sleep_until(clock.now().saturating_add(BESIDE_MAX));
        let mut is_over = false;
        while !is_over || known.iter().all(|lookup| lookup.resolved.is_err()) {
            tokio::select! {
                biased;
                lookup = self.next() => match lookup {
                    Some(lookup) => known.push(lookup),
                    None => break,
                },
                () = &mut beside, if !is_over => is_over = true,
            }
        }
        known.sort_by_key(|lookup| lookup.at);
        known
    }

    /// Waits for the next one; `None` if there is none.
    pub(crate) async fn next(&mut self) -> Option<Lookup> {
        loop {
            // One that panicked has no addresses.
            if let Ok(lookup) = self.running.join_next().await? {
                return Some(lookup);
            }
        }
    }

    /// How many have not been taken.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }
}

/// Waits for something no longer than `limit`; `missing` says what there is not by then.
pub(crate) async fn within<T>(
    clock: &Arc<dyn Clock>,
    limit: Duration,
    missing: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        () = clock.sleep_until(clock.now().saturating_add(limit)) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("{missing} within {limit:?}")))
        }
    }
}
