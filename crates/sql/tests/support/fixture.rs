//! The fixture of the conformance suite: a real server that a case has alone, and a proxy for each client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, SOON, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Operation, Result};
use lockkeeper_faults::lending::Lent;
use lockkeeper_faults::wait;
use lockkeeper_sql::{ClientTesting, Config, SqlBackend};
use lockkeeper_trials::fixture::{Clients, Survivor, Way, on_one_thread, until_seen};

use super::server::{Kind, Server};

/// How much later than its time a session may end: a quarter of the timeout until the next beat of another one shows
/// it, and a second for a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_millis(2_000);

#[derive(Clone, Debug)]
pub(crate) struct SqlFixture {
    kind: Kind,
    server: Arc<tokio::sync::Mutex<Lent<Server>>>,
    address: SocketAddr,
    clients: Clients<ClientTesting>,
    survivor: Survivor<SqlBackend>,
}

fn backend(url: &str) -> Result<SqlBackend> {
    SqlBackend::with(Config::from_url(&url.parse()?)?, Arc::new(SystemClock))
}

/// Opens a client of this kind by connections of its own, or by a pool of the program's.
fn backend_of(kind: Kind, server: SocketAddr, settings: &str) -> Result<SqlBackend> {
    let url = kind.url(server, settings);
    match kind {
        Kind::Pool(open) => SqlBackend::on_pool(open(server), &url.parse()?),
        _ => backend(&url),
    }
}

impl SqlFixture {
    pub(crate) fn new(kind: Kind, server: Lent<Server>) -> Self {
        let address = server.address();
        let server = Arc::new(tokio::sync::Mutex::new(server));
        Self { kind, server, address, clients: Clients::default(), survivor: Survivor::default() }
    }

    /// Does what an operator does, past all clients.
    async fn operate(&self, sql: String) -> Result<Vec<String>> {
        on_one_thread(&self.server, async move |server| server.ask(&sql).await).await
    }

    /// Ends a session as an operator would. MariaDB may give that up for another transaction's sake.
    async fn end(&self, session: &str) -> Result<()> {
        let sql = self.kind.ending_session(session);
        let end = async move |server: tokio::sync::OwnedMutexGuard<Lent<Server>>| {
            wait::until("the session to be ended", SOON, async || server.ask(&sql).await.ok().map(drop)).await
        };
        on_one_thread(&self.server, end).await
    }
}

impl Fixture for SqlFixture {
    fn prepare(&self, sessions: Sessions) {
        self.clients.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let open = |servers: &[SocketAddr]| {
                let settings = format!("session_timeout={}s", fixture.clients.session_timeout().as_secs());
                let backend = Arc::new(backend_of(fixture.kind, servers[0], &settings)?);
                let testing = backend.testing();
                Ok((backend, testing))
            };
            let (backend, way) = fixture.clients.add(&[fixture.address], open).await?;
            Ok(Arc::new(SqlClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        kind != FaultKind::TellOfRemoval
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.clients.session_timeout() + SESSION_LATE_MAX)
    }

    /// The rows of contenders, values, sessions and what depends on them, by the server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let survivor = || async {
                let backend = backend(&fixture.kind.url(fixture.address, "session_timeout=2s"))?;
                let session = backend.session().await?;
                Ok((backend, session))
            };
            let survivor = fixture.survivor.living(survivor).await?;
            let session = survivor.testing().session();
            fixture.operate(fixture.kind.leftovers(&session)).await
        })
    }
}

#[derive(Clone, Debug)]
struct SqlClient {
    fixture: SqlFixture,
    way: Way<ClientTesting>,
    backend: Arc<SqlBackend>,
}

impl SqlClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before others end
    /// it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let (clients, testing) = (&self.fixture.clients, &self.way.testing);
        let ending = async {
            let session = testing.session();
            if !session.is_empty() {
                self.fixture.end(&session).await?;
                // Where nothing but its beats tells it, it would learn later than the others.
                testing.urge();
                // A client that stands still is told later.
                let is_told = || testing.knows_lost(&session);
                let _ = tokio::time::timeout(clients.session_timeout(), until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&self.way, ending).await
    }

    /// Starts the server again. Its new state of the data is waited for as long as sessions here may last.
    async fn restart(self) -> Result<()> {
        let sql = self.fixture.kind.limiting(self.fixture.clients.session_timeout());
        self.fixture.operate(sql).await?;
        on_one_thread(&self.fixture.server, async |mut server| server.database.restart().await).await
    }

    /// Deletes a contender's row. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let (clients, kind) = (&self.fixture.clients, self.fixture.kind);
        let ticket = kind.id(contender.as_str());
        let session = format!("SELECT {} FROM lockkeeper.contender WHERE ticket = {ticket}", kind.digits("session"));
        let session = self.fixture.operate(session).await?.pop().unwrap_or_else(|| panic!("{contender} is there"));
        let owner = clients.ways().into_iter().find(|way| way.testing.session() == session);
        let owner = owner.expect("one of the clients owns it");
        let removing = async {
            let removals = owner.testing.removals();
            self.fixture.operate(format!("DELETE FROM lockkeeper.contender WHERE ticket = {ticket}")).await?;
            // A client whose runtime stands still is told later.
            if !stands_still {
                let is_told = || owner.testing.removals() > removals;
                soon("the owner's word that its row is gone", until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&owner, removing).await
    }
}

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
            Fault::Cut => self.way.cut(),
            Fault::Heal => {
                self.way.heal();
                // A pool has other connections at once, and a session over it would notice nothing.
                if matches!(self.fixture.kind, Kind::Pool(_)) {
                    self.way.testing.lose_reply("beat");
                    self.way.testing.urge();
                }
            }
            Fault::Pause => return on_one_thread(&self.fixture.server, async |mut server| server.database.pause()),
            Fault::Resume => return on_one_thread(&self.fixture.server, async |mut server| server.database.resume()),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(function(operation)),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Wipe => return on_one_thread(&self.fixture.server, async |server| server.wipe().await),
            Fault::Restart => return Box::pin(self.clone().restart()),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
