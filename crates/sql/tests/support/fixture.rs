//! The fixture of the conformance suite: a real server that a case has alone, and a proxy for each client.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, SOON, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Error, Operation, Result, Session};
use lockkeeper_faults::lending::Lent;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::wait;
use lockkeeper_sql::{Config, SqlBackend, Testing};
use tokio::sync::OwnedMutexGuard;

use super::server::{Kind, Server, failed};

/// The session timeout of all clients of a case that waits for the end of a session …
const BRIEF: Duration = Duration::from_secs(4);

/// … and of others: longer than a busy machine keeps any of them waiting. A statement may take a sixth of it.
const LASTING: Duration = Duration::from_secs(30);

/// How much later than its time a session may end: a quarter of the timeout until the next beat of another one shows
/// it, and a second for a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_millis(2_000);

/// One case's server.
#[derive(Clone, Debug)]
pub(crate) struct SqlFixture {
    kind: Kind,
    server: Arc<tokio::sync::Mutex<Lent<Server>>>,
    address: SocketAddr,
    /// The session timeout of its clients, once it is known.
    session_timeout: Arc<OnceLock<Duration>>,
    clients: Arc<std::sync::Mutex<Vec<Way>>>,
    /// One harm at a time, where others are held back meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// A session that lives on when a case has ended: what a client leaves that died, the living remove.
    survivor: Arc<tokio::sync::OnceCell<(SqlBackend, Arc<dyn Session>)>>,
}

/// How one client reaches the service, and what it lets tests know.
#[derive(Clone, Debug)]
struct Way {
    proxy: Arc<Proxy>,
    testing: Testing,
}

fn backend(url: &str) -> Result<SqlBackend> {
    SqlBackend::with(Config::from_url(&url.parse()?)?, Arc::new(SystemClock))
}

impl SqlFixture {
    pub(crate) fn new(kind: Kind, server: Lent<Server>) -> Self {
        let address = server.address();
        let server = Arc::new(tokio::sync::Mutex::new(server));
        let (session_timeout, clients, turn) = (Arc::default(), Arc::default(), Arc::default());
        Self { kind, server, address, session_timeout, clients, turn, survivor: Arc::default() }
    }

    fn timeout(&self) -> Duration {
        *self.session_timeout.get_or_init(|| BRIEF)
    }

    fn ways(&self) -> Vec<Way> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn others_than(&self, way: &Way) -> Vec<Way> {
        self.ways().into_iter().filter(|other| !Arc::ptr_eq(&other.proxy, &way.proxy)).collect()
    }

    /// Does something to the server, whose harness stays on one thread.
    fn on_server<T: Send + 'static, Done: Future<Output = lockkeeper_faults::Result<T>>>(
        &self,
        act: impl FnOnce(OwnedMutexGuard<Lent<Server>>) -> Done + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (server, runtime) = (self.server.clone(), tokio::runtime::Handle::current());
        let acting =
            tokio::task::spawn_blocking(move || runtime.block_on(async { act(server.lock_owned().await).await }));
        Box::pin(async move { acting.await.expect("no panic").map_err(failed) })
    }

    /// Does what an operator does, past all clients.
    async fn operate(&self, sql: String) -> Result<Vec<String>> {
        self.on_server(async move |server| server.ask(&sql).await).await
    }

    /// Ends a session as an operator would. MariaDB may give that up for another transaction's sake.
    async fn end(&self, session: &str) -> Result<()> {
        let sql = self.kind.ending_session(session);
        let end = async move |server: OwnedMutexGuard<Lent<Server>>| {
            wait::until("the session to be ended", SOON, async || server.ask(&sql).await.ok().map(drop)).await
        };
        self.on_server(end).await
    }
}

impl Fixture for SqlFixture {
    fn prepare(&self, sessions: Sessions) {
        let timeout = match sessions {
            Sessions::Brief => BRIEF,
            Sessions::Lasting => LASTING,
        };
        self.session_timeout.set(timeout).expect("no client was opened before");
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let proxy = Arc::new(Proxy::of_bytes(fixture.address).await.map_err(failed)?);
            let settings = format!("session_timeout={}s", fixture.timeout().as_secs());
            let backend = Arc::new(backend(&fixture.kind.url(proxy.address(), &settings))?);
            let way = Way { proxy, testing: backend.testing() };
            fixture.clients.lock().unwrap_or_else(PoisonError::into_inner).push(way.clone());
            Ok(Arc::new(SqlClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        kind != FaultKind::TellOfRemoval
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.timeout() + SESSION_LATE_MAX)
    }

    /// The rows of contenders, values, sessions and what depends on them, by the server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let survivor = async || {
                let backend = backend(&fixture.kind.url(fixture.address, "session_timeout=2s"))?;
                let session = backend.session().await?;
                Ok::<_, Error>((backend, session))
            };
            let (survivor, _) = fixture.survivor.get_or_try_init(survivor).await?;
            let session = survivor.testing().session();
            fixture.operate(fixture.kind.leftovers(&session)).await
        })
    }
}

#[derive(Clone, Debug)]
struct SqlClient {
    fixture: SqlFixture,
    way: Way,
    backend: Arc<SqlBackend>,
}

impl SqlClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before others end
    /// it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let _turn = self.fixture.turn.lock().await;
        let session = self.way.testing.session();
        let others = self.fixture.others_than(&self.way);
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Hold));
        if !session.is_empty() {
            self.fixture.end(&session).await?;
            // Where nothing but its beats tells it, it would learn later than the others.
            self.way.testing.urge();
            // A client that stands still is told later.
            let is_told = || self.way.testing.knows_lost(&session);
            let _ = tokio::time::timeout(self.fixture.timeout(), until(is_told)).await;
        }
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Pass));
        Ok(())
    }

    /// Starts the server again. Its new state of the data is waited for as long as sessions here may last.
    async fn restart(self) -> Result<()> {
        let sql = self.fixture.kind.limiting(self.fixture.timeout());
        self.fixture.operate(sql).await?;
        self.fixture.on_server(async |mut server| server.restart().await).await
    }

    /// Deletes a contender's row. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let _turn = self.fixture.turn.lock().await;
        let kind = self.fixture.kind;
        let ticket = kind.id(contender.as_str());
        let session = format!("SELECT {} FROM lockkeeper.contender WHERE ticket = {ticket}", kind.digits("session"));
        let session = self.fixture.operate(session).await?.pop().unwrap_or_else(|| panic!("{contender} is there"));
        let owner = self.fixture.ways().into_iter().find(|way| way.testing.session() == session);
        let owner = owner.expect("one of the clients owns it");
        let others = self.fixture.others_than(&owner);
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Hold));
        let removals = owner.testing.removals();
        self.fixture.operate(format!("DELETE FROM lockkeeper.contender WHERE ticket = {ticket}")).await?;
        // A client whose runtime stands still is told later.
        if !stands_still {
            soon("the owner's word that its row is gone", until(|| owner.testing.removals() > removals)).await;
        }
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Pass));
        Ok(())
    }
}

/// Waits until something is seen.
async fn until(mut is_seen: impl FnMut() -> bool) {
    while !is_seen() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The function that is called for an operation.
fn function(operation: Operation) -> &'static str {
    match operation {
        Operation::Join => "join",
        Operation::Leave => "leave",
        Operation::Wait => "missing",
        Operation::Value => "set_value",
        other => panic!("no case loses the answer to {other:?}"),
    }
}

impl suite::Client for SqlClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.proxy.blackhole(),
            // Whether anything was lost or not, what comes next goes over another connection.
            Fault::Heal => {
                self.way.proxy.heal();
                self.way.proxy.reset();
            }
            Fault::Pause => return self.fixture.on_server(async |mut server| server.pause()),
            Fault::Resume => return self.fixture.on_server(async |mut server| server.resume()),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(function(operation)),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Wipe => return self.fixture.on_server(async |server| server.wipe().await),
            Fault::Restart => return Box::pin(self.clone().restart()),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
