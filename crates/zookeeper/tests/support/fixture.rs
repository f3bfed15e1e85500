//! The fixture of the conformance suite: real servers that serve all cases, a subtree for each, a proxy for each
//! client. Which servers these are, the binary of each suite says.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, Operation, Part, Result};
use lockkeeper_faults::proxy::{self, AfterDrop, Direction, Flow, Proxy};
use lockkeeper_trials::fixture::{Clients, failed, on_one_thread, until_seen};
use lockkeeper_zk_proto::message::ErrorCode;
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};
use tokio::sync::Mutex;

use crate::sniff::{SniffingDial, expire};

/// The servers' tick: sessions may be as short as two of them.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// The longest session timeout that servers with this tick grant.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// The servers that serve the cases of one test binary.
pub(crate) trait Service: Debug + Send {
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Stops them and starts them again with their data; comes back when they serve. The harness's futures stay on one
    /// thread.
    fn restart(&mut self) -> Pin<Box<dyn Future<Output = lockkeeper_faults::Result<()>> + '_>>;
}

/// A service that the fixtures of several cases share.
pub(crate) type Shared = Arc<Mutex<dyn Service>>;

/// How a client reaches the service, and what it was told by servers.
type Way = lockkeeper_trials::fixture::Way<SniffingDial>;

/// One case's subtree of a service.
#[derive(Clone, Debug)]
pub(crate) struct ZooKeeperFixture {
    service: Shared,
    addresses: Vec<SocketAddr>,
    chroot: String,
    clients: Clients<SniffingDial>,
}

/// How often the client was told of a node's end: by an event, or by an answer that there is no such node.
fn endings(way: &Way) -> usize {
    let is_ending = |frame: &proxy::FrameRecord| {
        frame.direction == Direction::ToClient
            && (frame.operation == proxy::Operation::NOTIFICATION || frame.error == Some(NO_NODE))
    };
    way.proxies().iter().map(|proxy| proxy.log().iter().filter(|frame| is_ending(frame)).count()).sum()
}

/// The nodes of a semaphore's parts, which stay when no contender stands in them.
const PARTS: [&str; 2] = ["locks", "leases"];

/// The code of `NoNode`.
const NO_NODE: i32 = -101;

impl ZooKeeperFixture {
    pub(crate) async fn start(service: Shared) -> Result<Self> {
        static CASES: AtomicU64 = AtomicU64::new(0);
        let chroot = format!("/case-{}", CASES.fetch_add(1, Ordering::Relaxed));
        let addresses = service.lock().await.addresses();
        let operator = operator(&addresses).await?;
        operator.create(NewNode::persistent(&chroot)).await.map_err(failed)?;
        operator.close().await.map_err(failed)?;
        Ok(Self { service, addresses, chroot, clients: Clients::default() })
    }

    /// The session timeout of its clients.
    fn timeout(&self) -> Duration {
        self.clients.session_timeout().min(TIMEOUT_MAX)
    }
}

/// A client that goes past all proxies.
async fn operator(addresses: &[SocketAddr]) -> Result<Client> {
    Client::connect(&config(addresses, "")).await.map_err(failed)
}

/// These servers, with what follows them in a URL.
fn config(addresses: &[SocketAddr], rest: &str) -> Config {
    let servers: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let url = format!("zk://{}{rest}", servers.join(","));
    Config::from_url(&url.parse().expect("a URL")).expect("a good URL")
}

impl Fixture for ZooKeeperFixture {
    fn prepare(&self, sessions: Sessions) {
        self.clients.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let mut proxies = Vec::new();
            for &address in &fixture.addresses {
                proxies.push(Proxy::start(address).await.map_err(failed)?);
            }
            let (chroot, timeout, tick) = (&fixture.chroot, fixture.timeout().as_millis(), TICK.as_millis());
            let rest = format!("{chroot}?session_timeout={timeout}ms&tick={tick}ms");
            let open = |through: &[SocketAddr]| {
                let dial = SniffingDial::default();
                let (config, clock) = (config(through, &rest), Arc::new(SystemClock));
                Ok((Arc::new(ZooKeeperBackend::with(config, Arc::new(dial.clone()), clock)), dial))
            };
            let (backend, way) = fixture.clients.add_through(proxies, open)?;
            Ok(Arc::new(ZooKeeperClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        kind != FaultKind::Wipe
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.timeout() + TICK * 3 / 2)
    }

    /// The nodes in the queues of the case's subtree, by each server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let (addresses, base) = (self.addresses.clone(), format!("{}/lockkeeper", self.chroot));
        Box::pin(async move {
            let mut found = BTreeSet::new();
            for address in addresses {
                let operator = operator(&[address]).await?;
                for queue in children(&operator, &base).await? {
                    let path = format!("{base}/{queue}");
                    for node in children(&operator, &path).await? {
                        let path = format!("{path}/{node}");
                        match PARTS.contains(&node.as_str()) {
                            true => {
                                let inside = children(&operator, &path).await?;
                                found.extend(inside.into_iter().map(|node| format!("{path}/{node}")));
                            }
                            false => drop(found.insert(path)),
                        }
                    }
                }
                operator.close().await.map_err(failed)?;
            }
            Ok(found.into_iter().collect())
        })
    }
}

async fn children(operator: &Client, path: &str) -> Result<Vec<String>> {
    match operator.get_children(path).await {
        Ok((children, _)) => Ok(children),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

#[derive(Clone, Debug)]
struct ZooKeeperClient {
    fixture: ZooKeeperFixture,
    way: Way,
    backend: Arc<ZooKeeperBackend>,
}

impl ZooKeeperClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before the service
    /// ends it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let (fixture, dial) = (&self.fixture, &self.way.testing);
        let ending = async {
            let Some(session) = dial.session() else {
                return Ok(());
            };
            let refusals = dial.seen().refusals;
            if expire(fixture.addresses[0], &session).await.map_err(failed)? {
                self.way.proxies().iter().for_each(Proxy::reset);
                // A client that was about to leave does not come back to be told.
                let is_told = || {
                    // In one expression, what was seen would be locked twice.
                    let is_refused = dial.seen().refusals > refusals;
                    is_refused || dial.session() != Some(session.clone())
                };
                let _ = tokio::time::timeout(fixture.timeout(), until_seen(is_told)).await;
            }
            Ok(())
        };
        fixture.clients.before_others(&self.way, ending).await
    }

    /// Deletes a contender's node. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, path: String, stands_still: bool) -> Result<()> {
        let clients = &self.fixture.clients;
        let operator = operator(&self.fixture.addresses).await?;
        let stat = operator.exists(&path).await.map_err(failed)?.expect("the contender is there");
        let owns = |way: &Way| way.testing.session().is_some_and(|session| session.session_id == stat.ephemeral_owner);
        let owner = clients.ways().into_iter().find(owns).expect("one of the clients owns it");
        let removing = async {
            let before = endings(&owner);
            operator.delete(&path, None).await.map_err(failed)?;
            // A client whose runtime stands still since its grant may watch nothing yet, and is told nothing then.
            if !stands_still {
                soon("the owner's word that its node is gone", until_seen(|| endings(&owner) > before)).await;
            }
            operator.close().await.map_err(failed)
        };
        clients.before_others(&owner, removing).await
    }

    /// Has the service stand still, or go on, to the clients of this case.
    fn set_flow(&self, flow: Flow) {
        self.fixture.clients.ways().iter().for_each(|way| way.set_flow(Direction::ToServer, flow));
    }

    fn lose_reply(&self, operation: Operation) {
        let lost = match operation {
            Operation::Join => proxy::Operation::CREATE2,
            Operation::Leave => proxy::Operation::DELETE,
            Operation::Wait => proxy::Operation::GET_DATA,
            Operation::View => proxy::Operation::GET_CHILDREN,
            Operation::Value | Operation::Request => proxy::Operation::SET_DATA,
            other => panic!("{other:?} has no separate request"),
        };
        for proxy in self.way.proxies() {
            // Dropping the handle would take it back.
            std::mem::forget(proxy.drop_next_reply(lost, AfterDrop::Close));
        }
    }
}

impl suite::Client for ZooKeeperClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.cut(),
            Fault::Heal => self.way.heal(),
            Fault::Pause => self.set_flow(Flow::Hold),
            Fault::Resume => self.set_flow(Flow::Pass),
            Fault::LoseReply(operation) => self.lose_reply(operation),
            Fault::RemoveContender { queue, contender, stands_still } => {
                let part = match queue.part() {
                    Part::Line => "",
                    Part::Waiters => "/locks",
                    Part::Permits => "/leases",
                };
                let path = format!("{}/lockkeeper/{}{part}/{contender}", self.fixture.chroot, queue.encoded());
                return Box::pin(self.clone().remove(path, stands_still));
            }
            Fault::Wipe => {
                let message = "the data of a server that others use is not wiped";
                return Box::pin(std::future::ready(Err(failed(std::io::Error::other(message)))));
            }
            Fault::Restart => return on_one_thread(&self.fixture.service, async |mut service| service.restart().await),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
