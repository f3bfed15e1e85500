//! Resolving the names of the servers, each with a separate limit of time: a slow one keeps no other waiting.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::Clock;
use tokio::net::lookup_host;
use tokio::task::JoinSet;

use crate::{DialHistory, Server, or_never};

/// How many addresses of one name are tried: as many as a URL may name servers.
const ADDRESSES_MAX: usize = lockkeeper_core::url::HOSTS_MAX;

/// How long the others have beside the first name that is resolved, so that a round has its order where all are as
/// fast.
const BESIDE_MAX: Duration = Duration::from_millis(100);

/// What a name is whose lookup took too long.
const UNRESOLVED: &str = "the name was not resolved";

/// The addresses of a server, each as the same server [`at`](Server::at) it.
type Resolving = BoxFuture<io::Result<Vec<Server>>>;

/// How the names of one service are resolved, and where the attempts of all its sessions stopped.
#[derive(Clone)]
pub struct Names {
    resolve: Arc<dyn Fn(&Server) -> Resolving + Send + Sync>,
    pub(crate) history: Arc<DialHistory>,
}

impl Names {
    /// Resolves names in this way.
    pub fn resolved_by(resolve: impl Fn(&Server) -> Resolving + Send + Sync + 'static) -> Self {
        Self { resolve: Arc::new(resolve), history: Arc::default() }
    }

    /// Resolves none: each server is its own only way.
    #[must_use]
    pub fn unresolved() -> Self {
        Self::resolved_by(|server| Box::pin(std::future::ready(Ok(vec![server.clone()]))))
    }

    /// Each server has these addresses, behind which anything may be: for tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn at(addresses: Vec<std::net::SocketAddr>) -> Self {
        Self::resolved_by(move |server| {
            let way = |&address| Server { address: Some(address), ..server.clone() };
            Box::pin(std::future::ready(Ok(addresses.iter().map(way).collect())))
        })
    }

    pub(crate) fn resolve(&self, server: &Server) -> Resolving {
        match server.socket() {
            Some(_) => Box::pin(std::future::ready(Ok(vec![server.clone()]))),
            None => (self.resolve)(server),
        }
    }

    /// Returns the ways to a server, which are looked up for so long.
    ///
    /// # Errors
    ///
    /// Why none is known.
    pub async fn ways_to(&self, server: &Server, clock: &Arc<dyn Clock>, limit: Duration) -> io::Result<Vec<Server>> {
        within(clock, limit, UNRESOLVED, self.resolve(server)).await
    }
}

/// By the machine's resolver.
impl Default for Names {
    fn default() -> Self {
        Self::resolved_by(resolve)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").field("history", &self.history).finish_non_exhaustive()
    }
}

/// Asks the machine's resolver for the addresses of a server, at least one.
pub fn resolve(server: &Server) -> Resolving {
    let server = server.clone();
    Box::pin(async move {
        let mut ways: Vec<Server> = Vec::new();
        for address in lookup_host((server.name.as_str(), server.port)).await?.take(ADDRESSES_MAX) {
            let way = server.at(address);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        match ways.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
            false => Ok(ways),
        }
    })
}

/// The addresses of one server, or why there are none.
#[derive(Debug)]
pub struct Lookup {
    /// Which of the servers it is.
    pub(crate) at: usize,
    /// The server.
    pub server: Server,
    /// The same server at each of its addresses.
    pub resolved: io::Result<Vec<Server>>,
}

/// The lookups of one round that were not taken yet.
#[derive(Debug, Default)]
pub struct Lookups {
    running: JoinSet<Lookup>,
}

impl Lookups {
    /// Asks for the addresses of all servers at once, for so long.
    pub fn begin(
        resolve: impl Fn(&Server) -> Resolving,
        clock: &Arc<dyn Clock>,
        servers: &[Server],
        limit: Duration,
    ) -> Self {
        let mut running = JoinSet::new();
        for (at, server) in servers.iter().cloned().enumerate() {
            let (clock, resolving) = (clock.clone(), resolve(&server));
            running.spawn(async move {
                let resolved = within(&clock, limit, UNRESOLVED, resolving).await;
                Lookup { at, server, resolved }
            });
        }
        Self { running }
    }

    /// Waits for the first server with an address, and a little for those beside it: all that is known by then, in the
    /// order of the servers.
    pub async fn first(&mut self, clock: &Arc<dyn Clock>) -> Vec<Lookup> {
        let mut known: Vec<Lookup> = Vec::new();
        let mut until = None;
        loop {
            let beside = or_never(until.map(|until| clock.sleep_until(until)));
            tokio::select! {
                biased;
                lookup = self.next() => match lookup {
                    Some(lookup) => {
                        if lookup.resolved.is_ok() {
                            until.get_or_insert_with(|| clock.now().saturating_add(BESIDE_MAX));
                        }
                        known.push(lookup);
                    }
                    None => break,
                },
                () = beside => break,
            }
        }
        known.sort_by_key(|lookup| lookup.at);
        known
    }

    /// Waits for the next one; `None` if there is none.
    pub async fn next(&mut self) -> Option<Lookup> {
        loop {
            // One that panicked has no addresses.
            if let Ok(lookup) = self.running.join_next().await? {
                return Some(lookup);
            }
        }
    }

    /// How many have not been taken.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether all have been taken.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

/// Waits for something no longer than `limit`.
///
/// # Errors
///
/// Those of the work; [`io::ErrorKind::TimedOut`], where `missing` says what there is not by then.
pub async fn within<T>(
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
    use std::net::SocketAddr;

    use lockkeeper_core::clock::TestClock;

    use super::*;

    #[tokio::test]
    async fn an_address_that_means_something_on_one_interface_alone_keeps_the_interface() {
        // By its number: interfaces are not named alike everywhere.
        let ways = resolve(&Server::new("fe80::1%1", 2181)).await.unwrap();
        let [Server { address: Some(SocketAddr::V6(address)), .. }] = &ways[..] else { panic!("{ways:?}") };
        assert_eq!((address.scope_id(), address.port()), (1, 2181));
        assert!(ways[0].to_string().ends_with(" at fe80::1%1"), "{}", ways[0]);
    }

    /// Resolves each name after as many milliseconds as its port says; those of the name `none` have no address.
    fn slow_names(server: &Server) -> Resolving {
        let server = server.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(server.port.into())).await;
            match server.name.as_str() {
                "none" => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(vec![server]),
            }
        })
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
            let servers: Vec<_> = servers.iter().map(|&(name, port)| Server::new(name, port)).collect();
            let begun = clock.now();
            let mut lookups = Lookups::begin(slow_names, &clock, &servers, Duration::from_secs(5));
            let known: Vec<_> = lookups.first(&clock).await.iter().map(|lookup| lookup.server.port).collect();
            let took = clock.now().saturating_duration_since(begun);
            assert_eq!((&known[..], took), (expected, Duration::from_millis(took_ms)), "{servers:?}");
        }
    }
}
