//! A holder without the library: the protocol's session machine over a socket, an ephemeral node first in the queue,
//! and until when each [`Rule`] would believe in it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_trials::now;
use lockkeeper_zk_proto::client::{AnchorConfig, ClientSession, Reply, SessionConfig, SessionEvent, SessionState};
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, Create, CreateMode, MultiOperation, ReplyHeader, RequestHeader, XID_PING, ZkRequest, ZkResponse,
};
use lockkeeper_zk_proto::time::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::TICK;

/// Ten ticks. What a stall costs the rules that overlook it grows with it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How many proofs a holder writes in each timeout, as the library does.
const PROOFS_PER_TIMEOUT: u32 = 6;

/// What the node is called: the name of a contender in Curator's layout, but for the sequence number.
const NAME: &str = "_c_00000000-0000-4000-8000-000000000001-lock-";

const BOUNDS: AnchorConfig = AnchorConfig::new(Some(TICK));

/// How long a session may be believed, by one rule or another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// A timeout from when the last answer to a ping came.
    PingAnswered,
    /// A timeout, less a margin, from when the last ping that was answered was sent.
    PingSent,
    /// A timeout, less the interval of proofs and half a tick, from when the last acknowledged write was sent.
    LastWrite,
    Anchor,
}

impl Rule {
    pub(crate) const NAIVE: [Self; 3] = [Self::PingAnswered, Self::PingSent, Self::LastWrite];
    pub(crate) const ALL: [Self; 4] = [Self::PingAnswered, Self::PingSent, Self::LastWrite, Self::Anchor];
}

/// Until when each rule believes in the session.
type Believed = [Option<BootInstant>; Rule::ALL.len()];

/// A session over one connection, and its node.
pub(crate) struct Bare {
    machine: ClientSession,
    stream: TcpStream,
    account: Account,
    node: String,
    pub(crate) believed: Arc<Mutex<Believed>>,
}

impl Bare {
    /// Makes a session through `server`, and the node in `queue`, a path.
    pub(crate) async fn start(server: SocketAddr, queue: &str) -> Self {
        let stream = TcpStream::connect(server).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a TCP socket");
        let mut machine = ClientSession::new(SessionConfig::new(SESSION_TIMEOUT).with_anchor(BOUNDS));
        machine.handle_connected(timestamp(now()));
        let mut bare = Self { machine, stream, account: Account::new(), node: String::new(), believed: Arc::default() };
        while bare.machine.state() != SessionState::Online {
            soon("a bare session", bare.step()).await;
            assert_ne!(bare.machine.state(), SessionState::Offline, "the server takes the session on");
        }
        assert_eq!(bare.machine.timeout(), Some(SESSION_TIMEOUT), "the server grants what the rules reckon with");
        let create = |path: String, mode| ZkRequest::Create(Create { path, data: None, acl: vec![Acl::open()], mode });
        bare.request(&create(queue.to_owned(), CreateMode::Persistent)).await;
        let ZkResponse::Create { path } =
            bare.request(&create(format!("{queue}/{NAME}"), CreateMode::EphemeralSequential)).await
        else {
            panic!("a node was to be made")
        };
        bare.node = path;
        bare
    }

    pub(crate) async fn prove(&mut self) {
        let check = MultiOperation::Check { path: self.node.clone(), version: -1 };
        self.request(&ZkRequest::Multi(vec![check])).await;
    }

    /// Does a request and waits for its reply: no other one is under way.
    async fn request(&mut self, request: &ZkRequest) -> ZkResponse {
        let id = self.machine.submit(request, None).expect("small and alone");
        loop {
            assert_eq!(self.machine.state(), SessionState::Online, "the server answers: {request:?}");
            if let Some(reply) = soon("a reply", self.step()).await {
                assert_eq!(reply.id, id);
                return reply.outcome.unwrap_or_else(|error| panic!("{request:?}: {error}"));
            }
        }
    }

    /// Keeps the session alive until `event`; `None` if the server has closed the connection before.
    pub(crate) async fn serve_until<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(event);
        while self.machine.state() == SessionState::Online {
            tokio::select! {
                biased;
                happened = &mut event => return Some(happened),
                _ = self.step() => {}
            }
        }
        None
    }

    /// Sends what is due, then takes what comes, or the next timer.
    ///
    /// It can be dropped while it waits: what was handed out was written by then.
    async fn step(&mut self) -> Option<Reply> {
        self.flush().await;
        let timer = self.machine.poll_timeout().map(instant);
        let sleep = async {
            match timer {
                Some(timer) => SystemClock.sleep_until(timer).await,
                None => std::future::pending().await,
            }
        };
        let mut input = [0; 4_096];
        tokio::select! {
            biased;
            read = self.stream.read(&mut input) => match read {
                Ok(count) if count > 0 => self.take(now(), &input[..count]),
                _ => self.machine.handle_disconnected(timestamp(now())),
            },
            () = sleep => self.machine.handle_timeout(timestamp(now())),
        }
        let mut reply = None;
        while let Some(event) = self.machine.poll_event() {
            if let SessionEvent::Reply(told) = event {
                reply = Some(told);
            }
        }
        reply
    }

    /// Takes bytes that were read; `received_at` was read after.
    fn take(&mut self, received_at: BootInstant, bytes: &[u8]) {
        if self.machine.state() == SessionState::Online {
            self.account.received(received_at, bytes);
        }
        self.machine.handle_bytes(timestamp(received_at), bytes);
        let anchor = self.machine.safe_until().map(instant);
        *self.believed.lock().expect("no panic") = self.account.believed(anchor);
    }

    async fn flush(&mut self) {
        loop {
            let sent_at = now();
            let Some(bytes) = self.machine.poll_transmit(timestamp(sent_at)) else {
                return;
            };
            if self.machine.state() == SessionState::Online {
                self.account.sent(sent_at, &bytes);
            }
            // A few hundred bytes: they fit into the socket's buffer at once.
            if self.stream.write_all(&bytes).await.is_err() {
                self.machine.handle_disconnected(timestamp(sent_at));
            }
        }
    }
}

/// What the simpler rules look at, kept from the bytes behind the handshake. All requests but pings are writes.
struct Account {
    outgoing: Deframer,
    incoming: Deframer,
    pings: VecDeque<BootInstant>,
    writes: VecDeque<BootInstant>,
    /// When the last ping that was answered was sent, and when its answer came.
    ping: Option<[BootInstant; 2]>,
    /// When the last acknowledged write was sent.
    write: Option<BootInstant>,
}

impl Account {
    fn new() -> Self {
        let [outgoing, incoming] = [(); 2].map(|()| Deframer::new(FRAME_BYTES_DEFAULT_MAX));
        Self { outgoing, incoming, pings: VecDeque::new(), writes: VecDeque::new(), ping: None, write: None }
    }

    fn sent(&mut self, sent_at: BootInstant, bytes: &[u8]) {
        self.outgoing.push(bytes);
        while let Some(frame) = self.outgoing.next_frame().expect("our own frames") {
            let header = RequestHeader::decode(&mut Reader::new(frame)).expect("our own requests");
            if header.xid == XID_PING { &mut self.pings } else { &mut self.writes }.push_back(sent_at);
        }
    }

    fn received(&mut self, received_at: BootInstant, bytes: &[u8]) {
        self.incoming.push(bytes);
        while let Some(frame) = self.incoming.next_frame().expect("ZooKeeper's frames") {
            let header = ReplyHeader::decode(&mut Reader::new(frame)).expect("ZooKeeper's replies");
            if header.xid == XID_PING {
                self.ping = Some([self.pings.pop_front().expect("a ping was sent"), received_at]);
            } else {
                self.write = Some(self.writes.pop_front().expect("a request was sent"));
            }
        }
    }

    /// In the order of [`Rule::ALL`].
    fn believed(&self, anchor: Option<BootInstant>) -> Believed {
        let for_a_timeout = |from: BootInstant| from.saturating_add(SESSION_TIMEOUT);
        [
            self.ping.map(|[_, answered_at]| for_a_timeout(answered_at)),
            self.ping.map(|[sent_at, _]| for_a_timeout(sent_at).saturating_sub(BOUNDS.margin(SESSION_TIMEOUT))),
            self.write.map(|sent_at| {
                for_a_timeout(sent_at).saturating_sub(SESSION_TIMEOUT / PROOFS_PER_TIMEOUT).saturating_sub(TICK / 2)
            }),
            anchor,
        ]
    }
}

fn timestamp(instant: BootInstant) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos())
}

fn instant(timestamp: Timestamp) -> BootInstant {
    BootInstant::from_nanos(timestamp.as_nanos())
}
