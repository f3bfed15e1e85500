//! A holder without the library: the protocol's session machine over a socket, an ephemeral node first in the queue,
//! and an account of what was exchanged. Each [`Rule`](crate::ledger::Rule) says what it may believe.

use std::net::SocketAddr;

use bytes::BytesMut;
use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_zk_proto::client::{
    AnchorConfig, ClientSession, Engagement, Event, Reply, RequestError, RequestId, SessionConfig, SessionState,
};
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, ErrorCode, MultiOperation, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ledger::{Ledger, PROOFS_PER_TIMEOUT, Rule, instant, now, timestamp};
use crate::plan::{BareTraffic, Round, SESSION_TIMEOUT, TICK};

/// What the node is called: the name of a contender in Curator's layout, but for the sequence number.
const NAME: &str = "_c_00000000-0000-4000-8000-000000000001-lock-";

/// A holder whose node stands first in the queue.
pub(crate) struct BareHolder {
    /// What went over its session.
    pub(crate) ledger: Ledger,
    begin: oneshot::Sender<BootInstant>,
    write: oneshot::Sender<()>,
    written: oneshot::Receiver<()>,
    task: Ending,
}

/// The last write, and what goes on after it until this is dropped.
pub(crate) struct LastWrite {
    write: oneshot::Sender<()>,
    written: oneshot::Receiver<()>,
    task: Ending,
}

/// Ends a task.
pub(crate) struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl BareHolder {
    /// Makes a session through `server`, and the node in `queue`, a path.
    pub(crate) async fn start(server: SocketAddr, queue: &str, round: &Round) -> Self {
        let ledger = Ledger::new();
        let mut session = soon("a bare session", Bare::connect(server, ledger.clone())).await;
        let node = soon("a bare node", session.create_contender(queue)).await;
        let (begin, begun) = oneshot::channel::<BootInstant>();
        let (write, wanted) = oneshot::channel();
        let (acknowledge, written) = oneshot::channel();
        let (traffic, stall) = (round.bare_traffic, round.bare_stall);
        let live = async move {
            let Some(Ok(moment)) = session.serve_until(begun).await else {
                return;
            };
            if session.keep_busy(traffic, &node, moment.saturating_sub(stall), wanted).await {
                session.prove(&node).await;
                let _ = acknowledge.send(());
                // Pings go on while the server answers.
                session.serve_until(std::future::pending::<()>()).await;
            }
        };
        let task = Ending(tokio::spawn(live));
        Self { ledger, begin, write, written, task }
    }

    /// Has the traffic begin, whose last write is due about `moment`.
    pub(crate) fn begin(self, moment: BootInstant) -> LastWrite {
        let Self { begin, write, written, task, .. } = self;
        begin.send(moment).expect("the bare holder lives");
        LastWrite { write, written, task }
    }
}

impl LastWrite {
    /// Has the last write done, and waits for its acknowledgement.
    pub(crate) async fn now(self) -> Ending {
        self.write.send(()).expect("the bare holder lives");
        soon("the last acknowledgement", self.written).await.expect("the bare holder lives");
        self.task
    }
}

/// A session over one connection.
struct Bare {
    machine: ClientSession,
    stream: TcpStream,
    ledger: Ledger,
    input: BytesMut,
    replies: Vec<Reply>,
}

impl Bare {
    async fn connect(server: SocketAddr, ledger: Ledger) -> Self {
        let config = SessionConfig::new(SESSION_TIMEOUT).with_anchor(AnchorConfig::new(Some(TICK)));
        let stream = TcpStream::connect(server).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a TCP socket");
        ledger.connected();
        let mut machine = ClientSession::new(config);
        machine.handle_connected(timestamp(now()));
        let mut bare = Self { machine, stream, ledger, input: BytesMut::new(), replies: Vec::new() };
        while bare.machine.state() != SessionState::Online {
            bare.step().await;
            assert_ne!(bare.machine.state(), SessionState::Offline, "the server takes the session on");
        }
        assert_eq!(bare.machine.timeout(), Some(SESSION_TIMEOUT), "the server grants what the rules reckon with");
        bare
    }

    /// Makes the queue, and our node in it.
    async fn create_contender(&mut self, queue: &str) -> String {
        let create = |path: String, mode| Create { path, data: None, acl: vec![Acl::open()], mode };
        self.request(&Request::Create(create(queue.to_owned(), CreateMode::Persistent))).await.expect("a new path");
        let mine = create(format!("{queue}/{NAME}"), CreateMode::EphemeralSequential);
        match self.request(&Request::Create(mine)).await {
            Ok(Response::Create { path }) => path,
            other => panic!("a node was to be made: {other:?}"),
        }
    }

    /// Goes on until the last write is wanted; returns false if no task waits for it any more.
    async fn keep_busy(
        &mut self,
        traffic: BareTraffic,
        node: &str,
        stall_at: BootInstant,
        mut wanted: oneshot::Receiver<()>,
    ) -> bool {
        match traffic {
            BareTraffic::Idle => self.serve_until(wanted).await.is_some_and(|wanted| wanted.is_ok()),
            BareTraffic::Stalled => {
                self.machine.engage(Engagement::Engaged);
                while now() < stall_at {
                    self.prove(node).await;
                    let next = now().saturating_add(SESSION_TIMEOUT / PROOFS_PER_TIMEOUT).min(stall_at);
                    self.serve_until(SystemClock.sleep_until(next)).await;
                }
                // Neither the socket nor the timers are looked at meanwhile.
                (&mut wanted).await.is_ok()
            }
        }
    }

    /// Writes what goes through the quorum and changes nothing.
    async fn prove(&mut self, node: &str) {
        let check = MultiOperation::Check { path: node.to_owned(), version: -1 };
        self.request(&Request::Multi(vec![check])).await.expect("the node is there and the session lives");
    }

    /// Does a request and waits for its reply.
    async fn request(&mut self, request: &Request) -> Result<Response, ErrorCode> {
        let id = self.machine.submit(request, None).expect("small and alone");
        loop {
            if let Some(reply) = self.take_reply(id) {
                return reply.outcome.map_err(|error| match error {
                    RequestError::Refused(code) => code,
                    other => panic!("{request:?}: {other}"),
                });
            }
            assert_eq!(self.machine.state(), SessionState::Online, "the server answers: {request:?}");
            self.step().await;
        }
    }

    fn take_reply(&mut self, id: RequestId) -> Option<Reply> {
        let found = self.replies.iter().position(|reply| reply.id == id)?;
        Some(self.replies.swap_remove(found))
    }

    /// Keeps the session alive until `event`; `None` if the server has closed the connection before.
    async fn serve_until<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(event);
        while self.machine.state() == SessionState::Online {
            tokio::select! {
                biased;
                happened = &mut event => return Some(happened),
                () = self.step() => {}
            }
        }
        None
    }

    /// Sends what is due, then takes what comes, or the next timer.
    ///
    /// It can be dropped while it waits: what was handed out was written by then.
    async fn step(&mut self) {
        self.flush().await;
        let timer = self.machine.poll_timeout().map(instant);
        let sleep = async {
            match timer {
                Some(timer) => SystemClock.sleep_until(timer).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = self.stream.read_buf(&mut self.input) => match read {
                Ok(count) if count > 0 => {
                    let received_at = now();
                    let bytes = self.input.split();
                    self.ledger.received(received_at, &bytes);
                    self.machine.handle_bytes(timestamp(received_at), &bytes);
                    self.compare();
                }
                _ => self.machine.handle_disconnected(timestamp(now())),
            },
            () = sleep => self.machine.handle_timeout(timestamp(now())),
        }
        while let Some(event) = self.machine.poll_event() {
            if let Event::Reply(reply) = event {
                self.replies.push(reply);
            }
        }
    }

    async fn flush(&mut self) {
        loop {
            let sent_at = now();
            let Some(bytes) = self.machine.poll_transmit(timestamp(sent_at)) else {
                return;
            };
            self.ledger.sent(sent_at, &bytes);
            // A few hundred bytes: they fit into the socket's buffer at once.
            if self.stream.write_all(&bytes).await.is_err() {
                self.machine.handle_disconnected(timestamp(sent_at));
            }
        }
    }

    /// The machine's own calculation is that of the account: the account feeds its anchor with what was really sent and
    /// received.
    fn compare(&self) {
        let (machine, account) = (self.machine.safe_until().map(instant), self.ledger.believed_until(Rule::Anchor));
        assert_eq!(machine, account, "the session machine and the account of its bytes agree");
    }
}
