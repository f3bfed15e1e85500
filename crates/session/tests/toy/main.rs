//! A network service that is added from the engine alone: it passes the suite that all services pass, with connections
//! that break and come again.

mod connection;
mod queue;
mod server;
mod session;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, ContenderId, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, FencingToken,
    Operation, QueueName, Removal, Result, Session, StoppedHolder, Ticket,
};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_session::{Ask, Failure, Onlooker, QueueSession, Record, Server, Testing};
use serde_json::{Value as Json, json};

use crate::connection::Connection;
use crate::queue::{MODES, Toy, listen};
use crate::session::{at_first, ok, open};

const CAPABILITIES: Capabilities =
    Capabilities::new("toy", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told);

/// The session timeout of all clients of a case that waits for the end of a session …
const BRIEF: Duration = Duration::from_secs(3);

/// … and of others.
const LASTING: Duration = Duration::from_secs(30);

/// How much later than its time a session may end on a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_secs(1);

/// How many cases run at once: most of a case's time is a wait for the end of a session.
const CASES_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        Box::pin(async {
            let server = server::Server::start().await.map_err(failed)?;
            Ok(Arc::new(ToyFixture(Arc::new(Service { server, timeout: OnceLock::new(), clients: Mutex::default() })))
                as Arc<dyn Fixture>)
        })
    })
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent(ErrorKind::Backend, Operation::Configure, "the fixture failed").caused_by(error)
}

/// The backend: sessions, and looks without one.
#[derive(Debug)]
struct ToyBackend {
    servers: Vec<Server>,
    timeout: Duration,
    testing: Testing,
    onlooker: Arc<Onlooker<Connection, ()>>,
}

impl ToyBackend {
    fn new(servers: Vec<Server>, timeout: Duration, testing: Testing) -> Self {
        let (of_looks, clock) = (servers.clone(), Arc::new(SystemClock));
        let onlooker = Onlooker::new(clock.clone(), timeout, Failure::needs_another, move || {
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

    fn trouble(&self) -> Option<Error> {
        self.onlooker.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
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
#[derive(Debug)]
struct Service {
    server: server::Server,
    timeout: OnceLock<Duration>,
    clients: Mutex<Vec<(Arc<Proxy>, Testing)>>,
}

#[derive(Clone, Debug)]
struct ToyFixture(Arc<Service>);

#[derive(Clone, Debug)]
struct ToyClient {
    service: Arc<Service>,
    proxy: Arc<Proxy>,
    testing: Testing,
    backend: Arc<ToyBackend>,
}

impl Fixture for ToyFixture {
    fn prepare(&self, sessions: Sessions) {
        let timeout = if sessions == Sessions::Brief { BRIEF } else { LASTING };
        self.0.timeout.set(timeout).expect("no client was opened before");
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let service = self.0.clone();
        Box::pin(async move {
            let proxy = Arc::new(Proxy::of_bytes(service.server.address).await.map_err(failed)?);
            let (address, testing) = (proxy.address(), Testing::default());
            let servers = vec![Server::new(address.ip().to_string(), address.port())];
            let timeout = *service.timeout.get_or_init(|| BRIEF);
            let backend = Arc::new(ToyBackend::new(servers, timeout, testing.clone()));
            let mut clients = service.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.push((proxy.clone(), testing.clone()));
            drop(clients);
            Ok(Arc::new(ToyClient { service, proxy, testing, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, _kind: FaultKind) -> bool {
        true
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(*self.0.timeout.get_or_init(|| BRIEF) + SESSION_LATE_MAX)
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        Box::pin(std::future::ready(Ok(self.0.server.stored())))
    }
}

impl ToyClient {
    /// Holds back what the others would be told, so that the client of this session is told first.
    fn hold_others_than(&self, testing: &Testing) -> Held {
        let clients = self.service.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let others = clients.iter().filter(|(_, other)| other.session() != testing.session());
        let held: Vec<_> = others.map(|(proxy, _)| proxy.clone()).collect();
        held.iter().for_each(|proxy| proxy.set_flow(Direction::ToClient, Flow::Hold));
        Held(held)
    }

    async fn expire(self) -> Result<()> {
        let (testing, losses) = (self.testing.clone(), self.testing.losses());
        let _held = self.hold_others_than(&testing);
        let was_there = self.service.server.expire(&testing.session());
        let is_told = move || !was_there || testing.losses() > losses;
        // A client that stands still is told later.
        let _ = tokio::time::timeout(BRIEF, told(is_told)).await;
        Ok(())
    }

    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let owner = self.service.server.owner(contender.as_str());
        let clients = self.service.clients.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let owner = clients.into_iter().map(|(_, testing)| testing).find(|testing| testing.session() == owner);
        let owner = owner.expect("one of the clients owns it");
        let removals = owner.removals();
        let _held = self.hold_others_than(&owner);
        self.service.server.remove(contender.as_str());
        // A client whose runtime stands still is told later.
        told(move || stands_still || owner.removals() > removals).await;
        Ok(())
    }
}

/// Waits until a client knows of the harm.
async fn told(is_told: impl Fn() -> bool + Send + Sync) {
    let looks = async {
        while !is_told() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon("the word of the client that is told first", looks).await;
}

/// Clients that are told nothing meanwhile.
struct Held(Vec<Arc<Proxy>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.iter().for_each(|proxy| proxy.set_flow(Direction::ToClient, Flow::Pass));
    }
}

impl suite::Client for ToyClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Cut => self.proxy.blackhole(),
            Fault::Heal => {
                self.proxy.heal();
                self.proxy.reset();
            }
            Fault::Pause => self.service.server.set_paused(true),
            Fault::Resume => self.service.server.set_paused(false),
            Fault::LoseReply(operation) => self.testing.lose_reply(operation),
            Fault::Restart => self.service.server.restart(),
            Fault::Wipe => unreachable!("its tokens do not outlive its data"),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
