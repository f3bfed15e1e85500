//! The fixture of the conformance suite: real servers that serve all cases, a subtree for each, a proxy for each
//! client. Which servers these are, the binary of each suite says.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, Error, ErrorKind, Operation, Part, Result};
use lockkeeper_faults::proxy::{self, AfterDrop, Direction, Flow, Proxy};
use lockkeeper_zk_proto::message::ErrorCode;
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};
use tokio::sync::Mutex;

use crate::sniff::{SniffingDial, expire};

/// The servers' tick: sessions may be as short as two of them.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// The session timeout of all clients of a case that waits for the end of a session …
const BRIEF: Duration = Duration::from_secs(4);

/// … and of others: the longest that servers with this tick grant, and longer than a busy machine keeps any of them
/// waiting.
const LASTING: Duration = Duration::from_secs(10);

/// The servers that serve the cases of one test binary.
pub(crate) trait Service: Debug + Send {
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Stops them and starts them again with their data; comes back when they serve. The harness's futures stay on one
    /// thread.
    fn restart(&mut self) -> Pin<Box<dyn Future<Output = lockkeeper_faults::Result<()>> + '_>>;
}

/// A service that the fixtures of several cases share.
pub(crate) type Shared = Arc<Mutex<dyn Service>>;

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent(ErrorKind::Backend, Operation::Configure, "the fixture failed").caused_by(error)
}

/// One case's subtree of a service.
#[derive(Debug)]
pub(crate) struct ZooKeeperFixture {
    service: Shared,
    addresses: Vec<SocketAddr>,
    chroot: String,
    /// The session timeout of its clients, once it is known.
    session_timeout: OnceLock<Duration>,
    ways: Ways,
    /// One harm at a time, where others are held back meanwhile.
    turn: Arc<Mutex<()>>,
}

/// How each client of a case reaches the service.
type Ways = Arc<std::sync::Mutex<Vec<Way>>>;

/// One client's proxies, and what it was told by servers.
#[derive(Clone, Debug)]
struct Way {
    proxies: Arc<Vec<Proxy>>,
    dial: SniffingDial,
}

impl Way {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.proxies, &other.proxies)
    }

    fn set_flow(&self, direction: Direction, flow: Flow) {
        for proxy in self.proxies.iter() {
            proxy.set_flow(direction, flow);
        }
    }

    /// How often the client was told of a node's end: by an event, or by an answer that there is no such node.
    fn endings(&self) -> usize {
        let is_ending = |frame: &proxy::FrameRecord| {
            frame.direction == Direction::ToClient
                && (frame.operation == proxy::Operation::NOTIFICATION || frame.error == Some(NO_NODE))
        };
        self.proxies.iter().map(|proxy| proxy.log().iter().filter(|frame| is_ending(frame)).count()).sum()
    }
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
        let (session_timeout, ways, turn) = (OnceLock::new(), Arc::default(), Arc::default());
        Ok(Self { service, addresses, chroot, session_timeout, ways, turn })
    }

    fn timeout(&self) -> Duration {
        *self.session_timeout.get_or_init(|| BRIEF)
    }
}

/// A client that goes past all proxies.
async fn operator(addresses: &[SocketAddr]) -> Result<Client> {
    let config = config(addresses, "", "");
    Client::connect(&config).await.map_err(failed)
}

fn config(addresses: &[SocketAddr], chroot: &str, settings: &str) -> Config {
    let servers: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let url = format!("zk://{}{chroot}{settings}", servers.join(","));
    Config::from_url(&url.parse().expect("a URL")).expect("a good URL")
}

impl Fixture for ZooKeeperFixture {
    fn prepare(&self, sessions: Sessions) {
        let timeout = match sessions {
            Sessions::Brief => BRIEF,
            Sessions::Lasting => LASTING,
        };
        self.session_timeout.set(timeout).expect("no client was opened before");
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let (service, addresses, chroot) = (self.service.clone(), self.addresses.clone(), self.chroot.clone());
        let (timeout, ways, turn) = (self.timeout(), self.ways.clone(), self.turn.clone());
        Box::pin(async move {
            let mut proxies = Vec::new();
            for &address in &addresses {
                proxies.push(Proxy::start(address).await.map_err(failed)?);
            }
            let proxies = Arc::new(proxies);
            let through: Vec<_> = proxies.iter().map(Proxy::address).collect();
            let settings = format!("?session_timeout={}ms&tick={}ms", timeout.as_millis(), TICK.as_millis());
            let dial = SniffingDial::default();
            let way = Way { proxies, dial: dial.clone() };
            ways.lock().expect("no panic").push(way.clone());
            let config = config(&through, &chroot, &settings);
            let backend = ZooKeeperBackend::with(config, Arc::new(dial), Arc::new(SystemClock));
            let backend = Arc::new(backend);
            let client = ZooKeeperClient { service, addresses, chroot, timeout, way, ways, turn, backend };
            Ok(Arc::new(client) as Arc<dyn suite::Client>)
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
    service: Shared,
    addresses: Vec<SocketAddr>,
    chroot: String,
    /// Its session timeout.
    timeout: Duration,
    way: Way,
    ways: Ways,
    turn: Arc<Mutex<()>>,
    backend: Arc<ZooKeeperBackend>,
}

impl ZooKeeperClient {
    fn all_ways(&self) -> Vec<Way> {
        self.ways.lock().expect("no panic").clone()
    }

    fn others_than(&self, way: &Way) -> Vec<Way> {
        self.all_ways().into_iter().filter(|other| !other.is(way)).collect()
    }

    /// Has the service end the session. A session that runs out at its timeout is known to its owner before the service
    /// ends it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let Some(session) = self.way.dial.session() else {
            return Ok(());
        };
        let others = self.others_than(&self.way);
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Hold));
        let refusals = self.way.dial.seen().refusals;
        if expire(self.addresses[0], &session).await.map_err(failed)? {
            self.way.proxies.iter().for_each(Proxy::reset);
            // A client that was about to leave does not come back to be told.
            let is_told = || {
                // In one expression, what was seen would be locked twice.
                let is_refused = self.way.dial.seen().refusals > refusals;
                is_refused || self.way.dial.session() != Some(session.clone())
            };
            let _ = tokio::time::timeout(self.timeout, until(is_told)).await;
        }
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Pass));
        Ok(())
    }

    /// Deletes a contender's node. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, path: String, stands_still: bool) -> Result<()> {
        let _turn = self.turn.lock().await;
        let operator = operator(&self.addresses).await?;
        let stat = operator.exists(&path).await.map_err(failed)?.expect("the contender is there");
        let owns = |way: &Way| way.dial.session().is_some_and(|session| session.session_id == stat.ephemeral_owner);
        let owner = self.all_ways().into_iter().find(owns).expect("one of the clients owns it");
        let others = self.others_than(&owner);
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Hold));
        let endings = owner.endings();
        operator.delete(&path, None).await.map_err(failed)?;
        // A client whose runtime stands still since its grant may watch nothing yet, and is told nothing then.
        if !stands_still {
            soon("the owner's word that its node is gone", until(|| owner.endings() > endings)).await;
        }
        others.iter().for_each(|way| way.set_flow(Direction::ToClient, Flow::Pass));
        operator.close().await.map_err(failed)
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
        for proxy in self.way.proxies.iter() {
            // Dropping the handle would take it back.
            std::mem::forget(proxy.drop_next_reply(lost, AfterDrop::Close));
        }
    }
}

/// Waits until something is seen in a proxy.
async fn until(mut is_seen: impl FnMut() -> bool) {
    while !is_seen() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl suite::Client for ZooKeeperClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.proxies.iter().for_each(Proxy::blackhole),
            // Whether anything was lost or not, what comes next goes over another connection.
            Fault::Heal => self.way.proxies.iter().for_each(|proxy| {
                proxy.heal();
                proxy.reset();
            }),
            // To the clients of this case the service stands still.
            Fault::Pause => self.all_ways().iter().for_each(|way| way.set_flow(Direction::ToServer, Flow::Hold)),
            Fault::Resume => self.all_ways().iter().for_each(|way| way.set_flow(Direction::ToServer, Flow::Pass)),
            Fault::LoseReply(operation) => self.lose_reply(operation),
            Fault::RemoveContender { queue, contender, stands_still } => {
                let part = match queue.part() {
                    Part::Line => "",
                    Part::Waiters => "/locks",
                    Part::Permits => "/leases",
                };
                let path = format!("{}/lockkeeper/{}{part}/{contender}", self.chroot, queue.encoded());
                return Box::pin(self.clone().remove(path, stands_still));
            }
            Fault::Wipe => {
                let message = "the data of a server that others use is not wiped";
                return Box::pin(std::future::ready(Err(failed(std::io::Error::other(message)))));
            }
            Fault::Restart => {
                let (service, runtime) = (self.service.clone(), tokio::runtime::Handle::current());
                let restart = move || runtime.block_on(async { service.lock().await.restart().await });
                let restart = tokio::task::spawn_blocking(restart);
                return Box::pin(async move { restart.await.expect("no panic").map_err(failed) });
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
