//! Resolving the names of the servers, each with a separate limit of time: a slow one keeps no other waiting.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use tokio::task::JoinSet;

use crate::alarm::Alarm;
use crate::config::Server;
use crate::dial::Dial;

/// How long the others have beside the first name that is resolved, so that a round has its order where all are as
/// fast.
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

    /// Waits for the first server with an address, and a little for those beside it: all that is known by then, in the
    /// order of the servers.
    pub(crate) async fn first(&mut self, clock: &Arc<dyn Clock>) -> Vec<Lookup> {
        let mut known = Vec::new();
        let mut beside = Alarm::new(clock.clone());
        loop {
            tokio::select! {
                biased;
                lookup = self.next() => match lookup {
                    Some(lookup) => {
                        if lookup.resolved.is_ok() {
                            beside.set(Some(clock.now().saturating_add(BESIDE_MAX)));
                        }
                        known.push(lookup);
                    }
                    None => break,
                },
                () = beside.rings() => break,
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

    /// Whether all have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
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

#[cfg(test)]
mod tests {
    use lockkeeper_core::BoxFuture;
    use lockkeeper_core::clock::TestClock;

    use super::*;
    use crate::dial::Stream;

    /// Resolves each name after as many milliseconds as its port says; those of the name `none` have no address.
    #[derive(Debug)]
    struct SlowNames;

    impl Dial for SlowNames {
        fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
            let server = server.clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(server.port.into())).await;
                match server.name.as_str() {
                    "none" => Err(io::ErrorKind::NotFound.into()),
                    _ => Ok(vec![server]),
                }
            })
        }

        fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
            panic!("{server} is only resolved")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_are_resolved_soon_after_the_first_one_are_known_with_it_in_the_order_of_the_servers() {
        for (servers, expected, took_ms) in [
            (&[("a", 160), ("b", 150), ("c", 170)][..], &[160, 150, 170][..], 170),
            (&[("a", 20), ("b", 0), ("c", 10)], &[20, 0, 10], 20),
            (&[("a", 600), ("b", 240), ("c", 150)], &[240, 150], 250),
            (&[("a", 600), ("none", 0), ("c", 1_000)], &[600, 0], 700),
            (&[("none", 150), ("none", 0)], &[150, 0], 150),
        ] {
            let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
            let dial: Arc<dyn Dial> = Arc::new(SlowNames);
            let servers: Vec<_> = servers.iter().map(|&(name, port)| Server::new(name, port)).collect();
            let begun = clock.now();
            let mut lookups = Lookups::begin(&dial, &clock, &servers, Duration::from_secs(5));
            let known: Vec<_> = lookups.first(&clock).await.iter().map(|lookup| lookup.server.port).collect();
            let took = clock.now().saturating_duration_since(begun);
            assert_eq!((&known[..], took), (expected, Duration::from_millis(took_ms)), "{servers:?}");
        }
    }
}
