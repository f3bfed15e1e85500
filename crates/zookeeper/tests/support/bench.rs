//! A server and a proxy in front of it, and the clients of a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_conformance::{Party, until};
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Peer, curator, go, kazoo};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::zookeeper::ServerWords;
use lockkeeper_zookeeper::{Client, NewNode};

use super::server::{BenchServer, Make, can_run};
use super::waist::Waist;
use super::way;

/// As seldom as Apache's server does it by itself.
const REAPING_SELDOM: Duration = Duration::from_secs(60);

/// The session timeout of clients of other libraries.
const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) server: BenchServer,
    pub(crate) proxy: Proxy,
    /// The node below which all that the test does lies; empty for the root, where the server is the test's alone.
    chroot: String,
}

impl Bench {
    /// A bench for a test that leaves the server as it is, and counts nothing that others can add to. All such tests
    /// share Apache's server, each below another node. None if the test is skipped.
    pub(crate) async fn start(make: Make) -> Option<Self> {
        if make == Make::Embedded {
            return Self::alone(make).await;
        }
        if !make.can_start() {
            return None;
        }
        static BENCHES: AtomicU64 = AtomicU64::new(0);
        let chroot = format!("/bench-{}", BENCHES.fetch_add(1, Ordering::Relaxed));
        let server = BenchServer::shared().await;
        let operator = way::client(server.address(), "").await;
        operator.create(NewNode::persistent(&chroot)).await.expect("it is made");
        operator.close().await.expect("it is closed");
        Some(Self::before(server, chroot).await)
    }

    /// A bench on Apache's server for clients of other libraries too. None if the test is skipped.
    pub(crate) async fn beside(needed: &[fn() -> Availability]) -> Option<Self> {
        // go-zookeeper cannot be told to stay below a node.
        let is_alone = needed.contains(&(go::availability as fn() -> Availability));
        match can_run(needed.iter().fold(Availability::Present, |all, one| all.and(one))) {
            true if is_alone => Self::alone(Make::Apache).await,
            true => Self::start(Make::Apache).await,
            false => None,
        }
    }

    /// A bench whose server no other test uses. None if the test is skipped.
    pub(crate) async fn alone(make: Make) -> Option<Self> {
        Self::reaping_every(make, REAPING_SELDOM).await
    }

    /// A bench whose server no other test uses, and looks this often for containers that have been empty for a while.
    /// None if the test is skipped.
    pub(crate) async fn reaping_every(make: Make, interval: Duration) -> Option<Self> {
        if !make.can_start() {
            return None;
        }
        Some(Self::before(make.start(interval).await, String::new()).await)
    }

    async fn before(server: BenchServer, chroot: String) -> Self {
        let proxy = Proxy::start(server.address()).await.expect("a proxy");
        Self { server, proxy, chroot }
    }

    pub(crate) fn servers(&self) -> String {
        format!("{}{}", self.server.address(), self.chroot)
    }

    pub(crate) fn proxied(&self) -> String {
        format!("{}{}", self.proxy.address(), self.chroot)
    }

    pub(crate) fn party(&self, settings: &str) -> Party {
        way::party(self.proxied(), settings)
    }

    pub(crate) fn neighbour(&self, settings: &str) -> Party {
        way::party(self.servers(), settings)
    }

    pub(crate) async fn waist(&self, settings: &str) -> Waist {
        Waist::open(self.proxied(), settings).await
    }

    pub(crate) async fn neighbouring_waist(&self, settings: &str) -> Waist {
        Waist::open(self.servers(), settings).await
    }

    pub(crate) async fn curator(&self) -> Peer {
        curator::start(&self.servers(), PEER_SESSION_TIMEOUT).await.expect("it starts")
    }

    pub(crate) async fn kazoo(&self) -> Peer {
        kazoo::start(&self.servers(), PEER_SESSION_TIMEOUT).await.expect("it starts")
    }

    pub(crate) async fn go(&self) -> Peer {
        go::start(&self.servers(), PEER_SESSION_TIMEOUT).await.expect("it starts")
    }

    pub(crate) async fn operator(&self) -> Client {
        way::client(self.servers(), "").await
    }

    /// The sessions and paths of all ephemeral nodes, by the server's own account.
    pub(crate) async fn owned_ephemerals(&self) -> Vec<(u64, String)> {
        let all = self.words().ephemerals().await.expect("an answer").into_iter();
        all.filter_map(|(session, path)| Some((session, self.within(&path)?))).collect()
    }

    /// The paths of all ephemeral nodes, by the server's own account.
    pub(crate) async fn ephemerals(&self) -> Vec<String> {
        self.owned_ephemerals().await.into_iter().map(|(_, path)| path).collect()
    }

    /// How many ephemeral nodes lie below a path.
    pub(crate) async fn ephemerals_under(&self, path: &str) -> usize {
        self.words().ephemerals_under(&format!("{}{path}", self.chroot)).await.expect("an answer").len()
    }

    pub(crate) async fn until_ephemerals(&self, count: usize) {
        until("the number of nodes", async || self.ephemerals().await.len() == count).await;
    }

    /// Waits until no contender of any client is left in the queue.
    pub(crate) async fn until_nothing_left(&self, path: &str) {
        until("no contender is left", async || self.ephemerals_under(path).await == 0).await;
    }

    /// How many sessions watch the data of a node.
    pub(crate) async fn watchers(&self, path: &str) -> usize {
        let all = self.words().watched().await.expect("an answer").into_iter();
        all.filter(|(watched, _)| self.within(watched).is_some_and(|watched| watched == path)).count()
    }

    fn words(&self) -> ServerWords {
        ServerWords::new(self.server.address())
    }

    /// The path of a node as the clients of this bench have it; none if it is not below its node.
    fn within(&self, path: &str) -> Option<String> {
        path.strip_prefix(&self.chroot).filter(|path| path.starts_with('/')).map(str::to_owned)
    }
}
