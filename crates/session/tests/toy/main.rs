//! A network service that is added from the engine alone: it passes the suite that all services pass, with connections
//! that break and come again.

mod connection;
mod queue;
mod server;
mod session;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderId, ContenderInfo, Error, Exclusion, Fencing,
    FencingToken, Operation, QueueName, Removal, Result, Session, StoppedHolder, Ticket,
};
use lockkeeper_session::{Ask, ClientTesting, Failure, Onlooker, QueueSession, Record, Server};
use lockkeeper_trials::fixture::{CASES_AT_ONCE, Clients, Way, failed, until_seen};
use serde_json::{Value as Json, json};

use crate::connection::Connection;
use crate::queue::{MODES, Toy, listen};
use crate::session::{at_first, ok, open};

const CAPABILITIES: Capabilities =
    Capabilities::new("toy", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told);

/// How much later than its time a session may end on a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        Box::pin(async {
            let server = server::Server::start().await.map_err(failed)?;
            Ok(Arc::new(ToyFixture { server: Arc::new(server), clients: Clients::default() }) as Arc<dyn Fixture>)
        })
    })
}

/// The backend: sessions, and looks without one.
#[derive(Debug)]
struct ToyBackend {
    servers: Vec<Server>,
    timeout: Duration,
    testing: ClientTesting,
    onlooker: Arc<Onlooker<Connection, ()>>,
}

impl ToyBackend {
    fn new(servers: Vec<Server>, timeout: Duration, testing: ClientTesting) -> Self {
        let (of_looks, clock) = (servers.clone(), Arc::new(SystemClock));
        let onlooker = Onlooker::new(clock.clone(), (), timeout, Failure::needs_another, move || {
            let (servers, clock) = (of_looks.clone(), clock.clone() as Arc<dyn Clock>);
            Box::pin(async move {
                let deadline = clock.now().saturating_add(timeout);
                let opened = at_first(&servers, &clock, deadline, |connection| async { Ok(Arc::new(connection)) });
                opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
            })
        });
        Self { servers, timeout, testing, onlooker: Arc::new(onlooker) }
    }

    fn look<T: Send + 'static>(&self, question: Json, read: fn(&Json) -> Option<T>) -> BoxFuture<Result<T>> {
        let about = (question, read);
        Box::pin(self.onlooker.clone().look(Operation::Inspect, about, |(question, read), connection, _| {
            Box::pin(async move {
                let answer = connection.ask(question.clone()).await?;
                ok(&answer)?;
                read(&answer).ok_or_else(Failure::unexpected)
            })
        }))
    }
}

impl Backend for ToyBackend {
    fn service(&self) -> String {
        format!("toy://{}", self.servers[0])
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (opening, onlooker) =
            (open(self.servers.clone(), self.timeout, self.testing.clone()), self.onlooker.clone());
        Box::pin(async move {
            let opened = opening.await;
            onlooker.note(opened.as_ref().map(|core| &core.life));
            Ok(Arc::new(QueueSession::new(Toy(opened?), listen)) as Arc<dyn Session>)
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        self.onlooker.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
    }
}

impl AdminBackend for ToyBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        self.look(json!({"op": "inspect", "lock": queue.as_str()}), |answer| {
            answer["rows"].as_array()?.iter().map(info).collect()
        })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (asking, prefix) = (
            self.look(json!({"op": "queues"}), |answer| {
                let name = |name: &Json| QueueName::new(name.as_str()?).ok();
                answer["names"].as_array()?.iter().map(name).collect::<Option<BTreeSet<_>>>()
            }),
            prefix.to_owned(),
        );
        Box::pin(
            async move { Ok(asking.await?.into_iter().filter(|name| name.as_str().starts_with(&prefix)).collect()) },
        )
    }
}

/// Reads a contender as operators see it.
fn info(row: &Json) -> Option<ContenderInfo> {
    let ticket = row["ticket"].as_str()?;
    let mode = *MODES.get(usize::try_from(row["mode"].as_u64()?).ok()?)?;
    let mut info = ContenderInfo::new(ContenderId::new(ticket), mode);
    info.ticket = Ticket::parse(ticket);
    info.token = FencingToken::new(row["token"].as_u64()?, 0);
    info.session = row["session"].as_str().map(str::to_owned);
    info.revocation = row["ask"].as_str().and_then(Ask::read);
    Record::read(row["record"].as_str()?)?.describe(&mut info);
    Some(info)
}

/// One case's service, and its clients.
#[derive(Clone, Debug)]
struct ToyFixture {
    server: Arc<server::Server>,
    clients: Clients<ClientTesting>,
}

#[derive(Clone, Debug)]
struct ToyClient {
    fixture: ToyFixture,
    way: Way<ClientTesting>,
    backend: Arc<ToyBackend>,
}

impl Fixture for ToyFixture {
    fn prepare(&self, sessions: Sessions) {
        self.clients.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let open = |servers: &[SocketAddr]| {
                let (testing, timeout) = (ClientTesting::default(), fixture.clients.session_timeout());
                let servers = servers.iter().map(|at| Server::new(at.ip().to_string(), at.port())).collect();
                Ok((Arc::new(ToyBackend::new(servers, timeout, testing.clone())), testing))
            };
            let (backend, way) = fixture.clients.add(&[fixture.server.address], open).await?;
            Ok(Arc::new(ToyClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, _kind: FaultKind) -> bool {
        true
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.clients.session_timeout() + SESSION_LATE_MAX)
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        Box::pin(std::future::ready(Ok(self.server.stored())))
    }
}

impl ToyClient {
    /// Ends the session; the client is told first, unless it stands still.
    async fn expire(self) -> Result<()> {
        let (clients, testing) = (&self.fixture.clients, &self.way.testing);
        let ending = async {
            let losses = testing.losses();
            let was_there = self.fixture.server.expire(&testing.session());
            let is_told = || !was_there || testing.losses() > losses;
            let _ = tokio::time::timeout(clients.session_timeout(), until_seen(is_told)).await;
        };
        clients.before_others(&self.way, ending).await;
        Ok(())
    }

    /// Removes a contender; its owner is told first, unless it stands still.
    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let (clients, server) = (&self.fixture.clients, &self.fixture.server);
        let owner = server.owner(contender.as_str());
        let owner = clients.ways().into_iter().find(|way| way.testing.session() == owner);
        let owner = owner.expect("one of the clients owns it");
        let removing = async {
            let removals = owner.testing.removals();
            server.remove(contender.as_str());
            let is_told = || stands_still || owner.testing.removals() > removals;
            soon("the word of the client that is told first", until_seen(is_told)).await;
        };
        clients.before_others(&owner, removing).await;
        Ok(())
    }
}

impl suite::Client for ToyClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        let server = &self.fixture.server;
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Cut => self.way.cut(),
            Fault::Heal => self.way.heal(),
            Fault::Pause => server.set_paused(true),
            Fault::Resume => server.set_paused(false),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(operation),
            Fault::Restart => server.restart(),
            Fault::Wipe => unreachable!("its tokens do not outlive its data"),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
