//! The test's handle of a proxy: changes what it does, and asks what passed; and its port, which accepts connections,
//! owns their tasks, closes and opens as the plan says.
//!
//! `connection` moves bytes, by the plan that is changed here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{future, io};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

use super::connection;
use super::record::{AfterDrop, Burst, Direction, Flow, FrameRecord, Operation, Protocol, Shared};
use crate::ports::ReservedPort;
use crate::{Error, Result, wait};

/// How long the accepting task may take to close or open the port when told to.
const LISTENING_CHANGED_WITHIN: Duration = wait::PATIENCE;

/// A running proxy in front of one server; dropping it closes all its connections.
///
/// Every method that changes behaviour takes effect for frames that have not yet left the proxy, so a frame under delay
/// is subject to it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: watch::Receiver<bool>,
    accepting: JoinHandle<()>,
    _port: ReservedPort,
}

/// A reply that will be dropped; see [`Proxy::drop_next_reply`].
#[derive(Debug)]
#[must_use = "a test should know that what it wanted lost was lost"]
pub struct ReplyDrop {
    operation: Operation,
    dropped: oneshot::Receiver<FrameRecord>,
}

impl Proxy {
    /// Starts a proxy in front of a ZooKeeper server on a free port of 127.0.0.1, passing everything on at once.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        Self::start_for(target, Protocol::ZooKeeper).await
    }

    /// Starts a proxy in front of a server of another kind: it counts bursts alone, and loses no single reply.
    pub async fn of_bytes(target: SocketAddr) -> Result<Self> {
        Self::start_for(target, Protocol::Other).await
    }

    async fn start_for(target: SocketAddr, protocol: Protocol) -> Result<Self> {
        let port = ReservedPort::take()?;
        let address = port.address();
        let listener = TcpListener::bind(address).await.map_err(Error::io(address))?;
        let shared = Arc::new(Shared::new(target, protocol));
        let (listens, listening) = watch::channel(true);
        let accepting = tokio::spawn(accept(listener, address, Arc::clone(&shared), listens));
        Ok(Self { address, shared, listening, accepting, _port: port })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to another server, as an address does that moves to it; those that are open go on.
    pub fn turn_to(&self, target: SocketAddr) {
        self.shared.change(|plan| plan.target = target);
    }

    /// Delays each frame by `one_way` in each direction, so that a round trip takes twice as long and frames in flight
    /// keep their order.
    pub fn set_delay(&self, one_way: Duration) {
        self.shared.change(|plan| plan.delay = [one_way; 2]);
    }

    /// Says what becomes of frames in one direction, also of those under way. A connection that lost some is reset once
    /// both directions pass again, as its stream is torn.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.shared.change(|plan| plan.flow[direction.index()] = flow);
    }

    /// Swallows everything in both directions; connections stay open and new ones are accepted, without an answer.
    pub fn blackhole(&self) {
        self.shared.change(|plan| plan.flow = [Flow::Swallow; 2]);
    }

    /// Passes everything on again in both directions; connections that lost frames meanwhile are reset.
    pub fn heal(&self) {
        self.shared.change(|plan| plan.flow = [Flow::Pass; 2]);
    }

    /// Ends one direction of all connections (FIN to its receiver); the other goes on.
    pub fn half_close(&self, direction: Direction) {
        self.shared.change(|plan| plan.half_closes[direction.index()] += 1);
    }

    /// Closes all connections on both sides (FIN); new ones are accepted.
    pub fn cut(&self) {
        self.shared.change(|plan| plan.cuts += 1);
    }

    /// Resets all connections on both sides (RST); new ones are accepted.
    pub fn reset(&self) {
        self.shared.change(|plan| plan.resets += 1);
    }

    /// Closes all connections and the port: on return, connecting is refused.
    pub async fn cut_and_refuse(&self) -> Result<()> {
        self.shared.change(|plan| plan.cuts += 1);
        self.refuse().await
    }

    /// Closes the port: on return, connecting is refused. Connections stay open.
    pub async fn refuse(&self) -> Result<()> {
        self.shared.change(|plan| plan.accepts = false);
        self.listening_is(false).await
    }

    /// Opens the port again after [`refuse`](Self::refuse) or [`cut_and_refuse`](Self::cut_and_refuse).
    pub async fn accept_again(&self) -> Result<()> {
        self.shared.change(|plan| plan.accepts = true);
        self.listening_is(true).await
    }

    async fn listening_is(&self, wanted: bool) -> Result<()> {
        let mut listening = self.listening.clone();
        let changed = listening.wait_for(|listens| *listens == wanted);
        match time::timeout(LISTENING_CHANGED_WITHIN, changed).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::new(format!("{} did not open or close in time", self.address))),
        }
    }

    /// Loses the reply to the next request of `operation` that takes effect: the request reaches the server, the server
    /// succeeds, the client does not hear of it. Replies that report an error pass. Several can be asked for.
    pub fn drop_next_reply(&self, operation: Operation, then: AfterDrop) -> ReplyDrop {
        ReplyDrop { dropped: self.shared.arm(operation, then), operation }
    }

    /// How many frames of one operation came in from a direction, delivered or not. A reply counts under the operation
    /// of its request.
    pub fn count(&self, direction: Direction, operation: Operation) -> u64 {
        self.counts(direction).get(&operation).copied().unwrap_or(0)
    }

    /// How many frames of each operation came in from a direction.
    pub fn counts(&self, direction: Direction) -> BTreeMap<Operation, u64> {
        self.shared.record().counts(direction)
    }

    /// The frames that left the proxy or were lost in it, in that order; at most the first hundred thousand.
    pub fn log(&self) -> Vec<FrameRecord> {
        self.shared.record().log.clone()
    }

    /// What was passed on, whatever it was, in that order; at most the first hundred thousand.
    pub fn bursts(&self) -> Vec<Burst> {
        self.shared.record().bursts.clone()
    }

    /// How long ago the first connection was accepted; zero before.
    pub fn since_first_connection(&self) -> Duration {
        self.shared.record().since_first_opened()
    }

    /// Sets all counters to zero and empties the logs.
    pub fn forget(&self) {
        self.shared.record().clear();
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.record().connections
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The task owns all connections' tasks, which end with it.
        self.accepting.abort();
    }
}

impl ReplyDrop {
    /// Waits until it was dropped; answers what it was.
    pub async fn happened(self, within: Duration) -> Result<FrameRecord> {
        let operation = self.operation;
        match time::timeout(within, self.dropped).await {
            Ok(Ok(record)) => Ok(record),
            Ok(Err(_)) => Err(Error::new(format!("the connection ended before the reply to {operation} came"))),
            Err(_) => Err(Error::new(format!("no reply to {operation} was dropped within {within:?}"))),
        }
    }
}

/// Accepts connections and owns their tasks; closes and opens the port as the plan says.
async fn accept(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>, listens: watch::Sender<bool>) {
    let mut plan = shared.plan();
    let mut listener = Some(listener);
    let mut carrying = JoinSet::new();
    loop {
        let accepts = plan.borrow_and_update().accepts;
        match (accepts, &listener) {
            (false, Some(_)) => listener = None,
            // Bound again with SO_REUSEADDR; the port is reserved, so only a passing lack of resources can fail.
            (true, None) => listener = TcpListener::bind(address).await.ok(),
            _ => {}
        }
        listens.send_replace(listener.is_some());
        tokio::select! {
            changed = plan.changed() => if changed.is_err() { return },
            Some(_) = carrying.join_next(), if !carrying.is_empty() => {}
            Ok((client, _)) = next(listener.as_ref()), if listener.is_some() => {
                // One that slipped in after the port was to close is dropped, as the backlog is.
                if shared.now().accepts {
                    carrying.spawn(connection::carry(Arc::clone(&shared), client));
                }
            }
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => future::pending().await,
    }
}
