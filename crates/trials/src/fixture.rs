//! The common part of fixtures on real servers: a proxy between each client and each server, and harm of which one
//! client hears before the others.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper_conformance::Sessions;
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Operation, Result, Session};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use tokio::sync::OwnedMutexGuard;

/// How many cases run at once: most of a case's time is a wait for the end of a session.
pub const CASES_AT_ONCE: usize = 4;

/// The session timeout of all clients of a case that waits for the end of a session …
const BRIEF: Duration = Duration::from_secs(4);

/// … and of others: longer than a busy machine keeps any of them waiting.
const LASTING: Duration = Duration::from_secs(30);

/// How one client reaches the service, and what it lets tests know.
#[derive(Clone, Debug)]
pub struct Way<Testing> {
    proxies: Arc<Vec<Proxy>>,
    /// What it lets tests know.
    pub testing: Testing,
}

impl<Testing> Way<Testing> {
    /// The proxies, one before each server.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Lets nothing through any more, and ends no connection.
    pub fn cut(&self) {
        self.proxies.iter().for_each(Proxy::blackhole);
    }

    /// Lets all through again. Whether anything was lost or not, what comes next goes over another connection.
    pub fn heal(&self) {
        self.proxies.iter().for_each(|proxy| {
            proxy.heal();
            proxy.reset();
        });
    }

    /// Says what becomes of what goes in one direction.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.proxies.iter().for_each(|proxy| proxy.set_flow(direction, flow));
    }
}

/// A client that lives on when a case has ended, where the living remove what a client leaves that died. One that is
/// lost, as on a busy machine, is followed by another one.
#[derive(Debug)]
pub struct Survivor<Living>(Arc<tokio::sync::Mutex<Option<LivingClient<Living>>>>);

type LivingClient<Living> = (Arc<Living>, Arc<dyn Session>);

impl<Living> Survivor<Living> {
    /// Returns the client, whose session lives.
    ///
    /// # Errors
    ///
    /// Those of opening one.
    pub async fn living<Opening>(&self, open: impl FnOnce() -> Opening + Send) -> Result<Arc<Living>>
    where
        Living: Send + Sync,
        Opening: Future<Output = Result<(Living, Arc<dyn Session>)>> + Send,
    {
        let mut survivor = self.0.lock().await;
        if let Some((client, session)) = &*survivor
            && session.bond().liveness().is_held()
        {
            return Ok(client.clone());
        }
        let (client, session) = open().await?;
        let client = Arc::new(client);
        *survivor = Some((client.clone(), session));
        Ok(client)
    }
}

impl<Living> Clone for Survivor<Living> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Living> Default for Survivor<Living> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// The clients of one case.
#[derive(Clone, Debug)]
pub struct Clients<Testing> {
    /// Once it is known.
    session_timeout: Arc<OnceLock<Duration>>,
    ways: Arc<Mutex<Vec<Way<Testing>>>>,
    /// One harm at a time, where others are held back meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<Testing> Default for Clients<Testing> {
    fn default() -> Self {
        Self { session_timeout: Arc::default(), ways: Arc::default(), turn: Arc::default() }
    }
}

impl<Testing: Clone + Send + Sync> Clients<Testing> {
    /// Hears what the case needs of its sessions.
    pub fn prepare(&self, sessions: Sessions) {
        let timeout = match sessions {
            Sessions::Brief => BRIEF,
            Sessions::Lasting => LASTING,
        };
        self.session_timeout.set(timeout).expect("no client was opened before");
    }

    /// The session timeout of all clients.
    pub fn session_timeout(&self) -> Duration {
        *self.session_timeout.get_or_init(|| BRIEF)
    }

    /// Makes a client that reaches these servers by a proxy each.
    pub async fn add<Client>(
        &self,
        servers: &[SocketAddr],
        open: impl FnOnce(&[SocketAddr]) -> Result<(Client, Testing)> + Send,
    ) -> Result<(Client, Way<Testing>)> {
        let mut proxies = Vec::new();
        for &server in servers {
            proxies.push(Proxy::of_bytes(server).await.map_err(failed)?);
        }
        self.add_through(proxies, open)
    }

    /// Makes a client that reaches its servers by these proxies.
    pub fn add_through<Client>(
        &self,
        proxies: Vec<Proxy>,
        open: impl FnOnce(&[SocketAddr]) -> Result<(Client, Testing)>,
    ) -> Result<(Client, Way<Testing>)> {
        let (client, testing) = open(&proxies.iter().map(Proxy::address).collect::<Vec<_>>())?;
        let way = Way { proxies: Arc::new(proxies), testing };
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).push(way.clone());
        Ok((client, way))
    }

    /// The ways of all clients.
    pub fn ways(&self) -> Vec<Way<Testing>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does harm of which the client of this way hears before the others, which hear of it once it is done.
    pub async fn before_others<Output: Send>(
        &self,
        way: &Way<Testing>,
        harm: impl Future<Output = Output> + Send,
    ) -> Output {
        let _turn = self.turn.lock().await;
        let others: Vec<_> =
            self.ways().into_iter().filter(|other| !Arc::ptr_eq(&other.proxies, &way.proxies)).collect();
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Hold));
        let output = harm.await;
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Pass));
        output
    }
}

/// Waits until something is seen.
pub async fn until_seen(mut is_seen: impl FnMut() -> bool) {
    while !is_seen() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Does something to a service whose harness stays on one thread.
pub fn on_one_thread<Service, Output, Done>(
    service: &Arc<tokio::sync::Mutex<Service>>,
    act: impl FnOnce(OwnedMutexGuard<Service>) -> Done + Send + 'static,
) -> BoxFuture<Result<Output>>
where
    Service: Send + ?Sized + 'static,
    Output: Send + 'static,
    Done: Future<Output = lockkeeper_faults::Result<Output>>,
{
    let (service, runtime) = (service.clone(), tokio::runtime::Handle::current());
    let acting = tokio::task::spawn_blocking(move || runtime.block_on(async { act(service.lock_owned().await).await }));
    Box::pin(async move { acting.await.expect("no panic").map_err(failed) })
}

/// What a fixture says that has failed.
pub fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent(ErrorKind::Backend, Operation::Configure, "the fixture failed").caused_by(error)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::TestClock;
    use lockkeeper_recipes::memory::MemoryService;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_survivor_that_is_lost_is_followed_by_another_one() {
        let service = MemoryService::new(Arc::new(TestClock::new()));
        let survivor = Survivor::default();
        let living = async || {
            let open = || async {
                let (backend, testing) = service.client();
                let session = backend.session().await?;
                Ok((testing, session))
            };
            survivor.living(open).await.expect("it is opened")
        };
        let first = living().await;
        assert!(Arc::ptr_eq(&first, &living().await));
        first.expire_session();
        assert!(!Arc::ptr_eq(&first, &living().await));
    }
}
