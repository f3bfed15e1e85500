//! The handle of a running server, with its fault hooks.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_zk_proto::message::OpCode;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use crate::machine::{Counters, MemoryLimits, SeenRequest};
use crate::measures::ServerMeasures;
use crate::server::control::{Inspection, ServerCommand};
use crate::server::error::ServerError;
use crate::server::link::{Accepted, Arrival, LinkTask, Queues, Transport, link};
use crate::server::listening::{BoundListener, PeerSeat, Peers, accept_all};
use crate::session::ConnectionId;
use crate::storage::Recovered;

/// How much an in-memory connection holds each way, in bytes: as much as a socket.
const DUPLEX_BYTES: usize = 64 << 10;
/// Where clients on in-memory connections seem to come from.
const DUPLEX_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A ZooKeeper server in this process.
///
/// It serves while this value lives; dropping it closes all connections at once. With a data directory
/// [`EmbeddedServer::shutdown`] is the orderly way to end, but no other way loses anything that was answered.
///
/// # What holds for all methods
///
/// - The handle talks to the server within this process: there is no connection that can be lost.
/// - An async method that was polled takes effect even if its future is dropped. It has taken effect when it returns,
///   before anything that is asked of the server later. A method that only reads changes nothing.
/// - The faults take effect in the order of the calls, and no later than an answer to any of the async methods.
/// - A server that has stopped does nothing, and its answers are empty: 0, `false`, or no entries.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use lockkeeper_zk_server::EmbeddedServer;
///
/// let server = EmbeddedServer::start().await?;
/// assert!(server.url().starts_with("zk://127.0.0.1:"));
/// # Ok::<(), lockkeeper_zk_server::ServerError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct EmbeddedServer {
    entrance: Entrance,
    addresses: Vec<SocketAddr>,
    scheme: &'static str,
    core: JoinHandle<()>,
    end: Arc<OnceLock<String>>,
    listening: Vec<AbortHandle>,
    found: Option<Recovered>,
}

#[derive(Debug)]
pub(super) struct ServerParts {
    pub(super) controls: mpsc::UnboundedSender<ServerCommand>,
    pub(super) accepted: mpsc::UnboundedSender<Accepted>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) transport: Transport,
    pub(super) listeners: Vec<BoundListener>,
    pub(super) limits: MemoryLimits,
    pub(super) connections_per_address_max: Option<NonZeroUsize>,
    pub(super) measures: Arc<ServerMeasures>,
    pub(super) core: JoinHandle<()>,
    /// Why the core ended by itself.
    pub(super) end: Arc<OnceLock<String>>,
    pub(super) found: Option<Recovered>,
}

/// Where connections come in.
#[derive(Clone, Debug)]
struct Entrance {
    controls: mpsc::WeakUnboundedSender<ServerCommand>,
    /// Held by the handle only: without it the core ends.
    _alive: Option<mpsc::UnboundedSender<ServerCommand>>,
    accepted: mpsc::UnboundedSender<Accepted>,
    arrivals: mpsc::Sender<Arrival>,
    next_id: Arc<AtomicU64>,
    /// What waits for clients.
    queues: Arc<Queues>,
    measures: Arc<ServerMeasures>,
}

impl EmbeddedServer {
    pub(super) fn new(parts: ServerParts) -> Self {
        let entrance = Entrance {
            controls: parts.controls.downgrade(),
            _alive: Some(parts.controls),
            accepted: parts.accepted,
            arrivals: parts.arrivals,
            next_id: Arc::new(AtomicU64::new(1)),
            queues: Arc::new(Queues::new(parts.limits)),
            measures: Arc::clone(&parts.measures),
        };
        let addresses = parts.listeners.iter().map(|(_, address)| *address).collect();
        let scheme = parts.transport.scheme();
        let peers = Arc::new(Peers::new(parts.connections_per_address_max));
        let accept_on = |(listener, _)| {
            let entrance = Entrance { _alive: None, ..entrance.clone() };
            let transport = parts.transport.clone();
            let serve = move |stream, peer, seat| entrance.serve_over(transport.clone(), stream, peer, seat);
            tokio::spawn(accept_all(listener, Arc::clone(&peers), Arc::clone(&parts.measures), serve)).abort_handle()
        };
        let listening = parts.listeners.into_iter().map(accept_on).collect();
        Self { entrance, addresses, scheme, core: parts.core, end: parts.end, listening, found: parts.found }
    }

    /// What the start found in the data directory; `None` without one, and if it never had a state.
    pub const fn recovered(&self) -> Option<&Recovered> {
        self.found.as_ref()
    }

    /// The first address it listens on; `None` without a listener.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// All addresses it listens on, in the order in which they were asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// All URLs that Lockkeeper connects to, one for each address.
    pub fn urls(&self) -> Vec<String> {
        self.addresses.iter().map(|address| format!("{}://{address}", self.scheme)).collect()
    }

    /// The URL that Lockkeeper connects to, at the first address; only `zk:` without a listener.
    pub fn url(&self) -> String {
        match self.address() {
            Some(address) => format!("{}://{address}", self.scheme),
            None => "zk:".to_owned(),
        }
    }

    /// A new connection that needs no socket; works under paused time.
    pub fn connect_duplex(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(DUPLEX_BYTES);
        self.serve(server, DUPLEX_PEER);
        client
    }

    /// Serves a client on any stream, TLS for instance; the scheme `ip` uses `peer`.
    pub fn serve<S>(&self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.entrance.serve(stream, peer, |_| ());
    }

    /// Ends a session now, as if it had been silent for its timeout; returns whether there was one.
    pub async fn expire_session(&self, session_id: i64) -> bool {
        self.ask(|done| ServerCommand::ExpireSession(session_id, done)).await.unwrap_or_default()
    }

    /// Cuts the connection instead of sending the next reply to this operation, which has taken effect by then.
    ///
    /// Several calls stand for several replies.
    pub fn drop_next_reply(&self, operation: OpCode) {
        self.tell(ServerCommand::DropNextReply(operation));
    }

    /// Delays everything it sends by this much from now on; zero ends it.
    pub fn delay(&self, delay: Duration) {
        self.tell(ServerCommand::Delay(delay));
    }

    /// Lets nothing in or out, as a broken network path does, while sessions expire; what was sent arrives when it
    /// ends.
    pub fn blackhole(&self, is_on: bool) {
        self.tell(ServerCommand::Blackhole(is_on));
    }

    /// Stops everything, the server's time included, as stopping its process does, until [`EmbeddedServer::resume`].
    pub fn pause(&self) {
        self.tell(ServerCommand::Pause(true));
    }

    /// Goes on after [`EmbeddedServer::pause`]; no session has come closer to its end meanwhile.
    pub fn resume(&self) {
        self.tell(ServerCommand::Pause(false));
    }

    /// Plants a fault that no real server has: from now on a session's former connection is served on when the session
    /// has another one, so that what it brings late takes effect. A restart ends it.
    pub fn keep_former_connections(&self) {
        self.tell(ServerCommand::KeepFormerConnections);
    }

    /// Cuts all connections without ending their sessions; returns how many there were.
    pub async fn reset_connections(&self) -> usize {
        self.ask(ServerCommand::ResetConnections).await.unwrap_or_default()
    }

    /// Restarts: connections and watches end; nodes and sessions are kept, and sessions have their whole timeout again.
    pub async fn restart(&self) {
        self.ask(ServerCommand::Restart).await;
    }

    /// Has a node count its children as if this many had been made there, as after years of use; returns whether there
    /// is such a node. The next sequence number is this one.
    ///
    /// With a data directory it is stored with the next snapshot, not before.
    pub async fn set_children_made(&self, path: &str, count: i32) -> bool {
        self.ask(|done| ServerCommand::SetChildrenMade(path.to_owned(), count, done)).await.unwrap_or_default()
    }

    /// Shows every request to `hook` from now on, just before it takes effect.
    pub fn set_request_hook(&self, hook: impl FnMut(&SeenRequest<'_>) + Send + 'static) {
        self.tell(ServerCommand::SetHook(Some(Box::new(hook))));
    }

    /// Waits until the server has stopped by itself, which happens only when its log cannot be written any more, and
    /// returns the reason: [`ServerError::Unstorable`] with the file and the system's error. It then answers no more
    /// requests. The future can be dropped and the method called again.
    pub async fn stopped(&self) -> ServerError {
        self.entrance.arrivals.closed().await;
        match self.end.get() {
            Some(reason) => ServerError::Unstorable { reason: reason.clone() },
            None => ServerError::Stopped,
        }
    }

    /// Ends in order: everything that was asked before is answered and stored, and a snapshot makes the next start
    /// short. If the future is dropped half-way, the server ends as if this value had been dropped.
    pub async fn shutdown(mut self) {
        self.listen_no_more();
        self.ask(ServerCommand::Shutdown).await;
        let _ = (&mut self.core).await;
    }

    fn listen_no_more(&mut self) {
        self.listening.drain(..).for_each(|listening| listening.abort());
    }

    fn tell(&self, control: ServerCommand) {
        self.entrance.tell(control);
    }

    /// Asks the core; `None` if it has stopped.
    pub(super) async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> ServerCommand) -> Option<T> {
        let (done, answered) = oneshot::channel();
        self.tell(question(done));
        answered.await.ok()
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.listen_no_more();
    }
}

impl Entrance {
    fn tell(&self, control: ServerCommand) {
        if let Some(controls) = self.controls.upgrade() {
            // A core that has stopped gets no more commands.
            let _ = controls.send(control);
        }
    }

    fn serve<S>(&self, stream: S, peer: SocketAddr, cut: fn(&S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Some(task) = self.admit(peer) {
            tokio::spawn(task.run(stream, cut));
        }
    }

    /// Serves a client; its seat is given back when its connection has ended.
    fn serve_over(&self, transport: Transport, stream: TcpStream, peer: SocketAddr, seat: PeerSeat) {
        if let Some(task) = self.admit(peer) {
            let measures = Arc::clone(&self.measures);
            tokio::spawn(async move {
                transport.run(task, stream, &measures).await;
                drop(seat);
            });
        }
    }

    /// Tells the core of a client, before its task runs; a core that has stopped serves no client.
    fn admit(&self, peer: SocketAddr) -> Option<LinkTask> {
        let id = ConnectionId::new(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (link, task) = link(id, self.arrivals.clone(), Arc::clone(&self.queues));
        self.accepted.send(Accepted { id, peer, link }).is_ok().then_some(task)
    }
}

impl EmbeddedServer {
    /// The packets so far, as Apache counts them.
    pub async fn counters(&self) -> Counters {
        self.inspect().await.map(|seen| seen.counters).unwrap_or_default()
    }

    /// The sessions there are.
    pub async fn session_ids(&self) -> Vec<i64> {
        self.inspect().await.map(|seen| seen.session_ids).unwrap_or_default()
    }

    /// How many watches are set.
    pub async fn watches_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.watches_count).unwrap_or_default()
    }

    /// How many nodes there are, the four of the service included.
    pub async fn nodes_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.nodes_count).unwrap_or_default()
    }

    /// How many connections there are.
    pub async fn connections_count(&self) -> usize {
        self.inspect().await.map(|seen| seen.connections_count).unwrap_or_default()
    }

    /// The number of the latest transaction.
    pub async fn zxid(&self) -> i64 {
        self.inspect().await.map(|seen| seen.zxid).unwrap_or_default()
    }

    /// Its metrics in the text format of Prometheus, version 0.0.4; empty once it has stopped.
    ///
    /// `lockkeeper_server_request_seconds` and `lockkeeper_server_fsync_seconds` are histograms, the former for each
    /// kind of request from its reading until its answer leaves; `lockkeeper_server_refused_total` counts what was
    /// refused, by the reason. The others are counts of what there is: connections, sessions, watches, nodes, bytes,
    /// descriptors. It takes some ten microseconds of the server's time.
    pub async fn metrics(&self) -> String {
        self.ask(ServerCommand::Expose).await.unwrap_or_default()
    }

    async fn inspect(&self) -> Option<Inspection> {
        self.ask(ServerCommand::Inspect).await
    }
}
