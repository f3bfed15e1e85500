//! A client whose bytes are held back on their way, while it goes on over its next connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Session;
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::wait;
use lockkeeper_trials::waist::session;

/// Time for bytes on loopback to reach the proxy, or the server and back.
const ON_LOOPBACK: Duration = Duration::from_millis(10);

/// How long bytes need that are to be held back behind others whose answers are awaited …
const DELAYED_BY: Duration = Duration::from_millis(100);

/// … and how long after the first answer they are: all answers to a new connection come at once.
const ANSWERED_WITHIN: Duration = Duration::from_millis(50);

/// A session, and the ways that its connections take, one after the other.
pub(crate) struct Client {
    pub(crate) session: Arc<dyn Session>,
    /// The place of its first server among those that it was given.
    pub(crate) first: usize,
    ways: Vec<Proxy>,
}

impl Client {
    pub(crate) async fn open(servers: &[SocketAddr], settings: &str, ignores_conditions: bool) -> Self {
        let mut ways = Vec::new();
        for &server in servers {
            ways.push(Proxy::of_bytes(server).await.expect("a proxy"));
        }
        let hosts: Vec<_> = ways.iter().map(|way| way.address().to_string()).collect();
        let url = format!("etcd://{}?{settings}", hosts.join(","));
        let backend = EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        if ignores_conditions {
            backend.testing().ignore_conditions();
        }
        let session = session(&backend).await;
        // Processes begin at different servers, and go on with the next.
        let first = ways.iter().position(|way| way.connections() > 0).expect("the session has a connection");
        ways.rotate_left(first);
        Self { session, first, ways }
    }

    /// Holds back all that is sent from now on over one of its connections, counted from 0.
    pub(crate) fn hold(&self, way: usize) {
        self.ways[way].set_flow(Direction::ToServer, Flow::Hold);
    }

    /// Makes a call, lets its first request through, and holds back what is sent after the answer to that.
    pub(crate) async fn hold_after_one<T>(&self, way: usize, call: impl FnOnce() -> T) -> T {
        let proxy = &self.ways[way];
        proxy.set_flow(Direction::ToClient, Flow::Hold);
        let has_passed = proxy.bursts().len();
        let called = call();
        self.until_passed(way, Direction::ToServer, has_passed).await;
        tokio::time::sleep(ON_LOOPBACK).await;
        self.hold(way);
        proxy.set_flow(Direction::ToClient, Flow::Pass);
        called
    }

    /// Lets a connection begin over a way that none has taken, and holds back what is sent over it then.
    pub(crate) async fn hold_once_begun(&self, way: usize) {
        self.ways[way].set_delay(DELAYED_BY);
        self.until_passed(way, Direction::ToClient, 0).await;
        tokio::time::sleep(ANSWERED_WITHIN).await;
        self.hold(way);
        self.ways[way].set_delay(Duration::ZERO);
    }

    /// Waits until something has passed in this direction behind so many pieces.
    async fn until_passed(&self, way: usize, direction: Direction, behind: usize) {
        let proxy = &self.ways[way];
        let look = async || proxy.bursts()[behind..].iter().any(|burst| burst.direction == direction).then_some(());
        wait::until("something to pass", wait::PATIENCE, look).await.expect("it is sent");
    }

    /// Waits until what was asked can have been sent, and be here.
    pub(crate) async fn sent(&self) {
        tokio::time::sleep(ON_LOOPBACK).await;
    }

    /// Ends a connection for the client, once what it has sent can be here.
    pub(crate) async fn end(&self, way: usize) {
        self.sent().await;
        self.ways[way].half_close(Direction::ToClient);
    }

    /// Passes on what was held back.
    pub(crate) fn pass(&self, way: usize) {
        self.ways[way].set_flow(Direction::ToServer, Flow::Pass);
    }
}
