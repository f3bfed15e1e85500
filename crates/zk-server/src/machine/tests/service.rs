//! The tests' use of the machine.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateMode, ErrorCode, OpCode, ReadOnlyFlag, ReplyHeader,
    WatchEventKind, WatcherEvent, XID_NOTIFICATION, ZkRequest, ZkResponse, decode_reply_body, encode_request,
};
use lockkeeper_zk_proto::time::Timestamp;

use crate::machine::{ClockReading, CloseReason, Input, MachineSettings, Output, Seed, ServerMachine};
use crate::session::ConnectionId;

pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;
/// The session timeout asked for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A machine and its clients.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) machine: ServerMachine,
    pub(super) moment: ClockReading,
    pub(super) records: Vec<Bytes>,
    /// Whether the driver says at once that what was sent is read.
    pub(super) reads_at_once: bool,
    inboxes: BTreeMap<ConnectionId, Inbox>,
    connections_count: u64,
}

#[derive(Debug)]
struct Inbox {
    deframer: Deframer,
    bytes: Vec<u8>,
    closed: Option<CloseReason>,
    frames: VecDeque<Bytes>,
}

/// A client on a session.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) connection: ConnectionId,
    pub(super) session_id: i64,
    pub(super) password: Bytes,
}

impl Service {
    pub(super) fn new() -> Self {
        Self::with(MachineSettings { keeps_records: true, ..MachineSettings::default() })
    }

    pub(super) fn with(settings: MachineSettings) -> Self {
        let moment = ClockReading { now: Timestamp::from_millis(1_000), wall_ms: 1_800_000_000_000 };
        let seed = Seed { secret: [3; 32], wall_ms: moment.wall_ms };
        Self {
            machine: ServerMachine::new(settings, seed, moment),
            moment,
            records: Vec::new(),
            reads_at_once: true,
            inboxes: BTreeMap::new(),
            connections_count: 0,
        }
    }

    /// A connection that has sent nothing yet.
    pub(super) fn accept(&mut self) -> ConnectionId {
        self.connections_count += 1;
        let connection = ConnectionId::new(self.connections_count);
        self.inboxes.insert(
            connection,
            Inbox { deframer: Deframer::new(usize::MAX), bytes: Vec::new(), closed: None, frames: VecDeque::new() },
        );
        let peer = SocketAddr::from(([127, 0, 0, 1], 40_000));
        self.handle(Input::Accepted { connection, peer });
        connection
    }

    pub(super) fn bytes(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.handle(Input::Bytes { connection, bytes });
    }

    pub(super) fn handle(&mut self, input: Input<'_>) {
        self.machine.handle(self.moment, input);
        let mut read = self.take_outputs();
        // The clients of most tests read at once.
        while let Some(connection) = read.pop()
            && self.reads_at_once
        {
            self.machine.handle(self.moment, Input::Read { connection });
            read.extend(self.take_outputs());
        }
    }

    /// Takes what is sent; returns the connections that are served no further until it is read.
    fn take_outputs(&mut self) -> Vec<ConnectionId> {
        let mut read = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Persist(record) => self.records.push(record),
                Output::Send { connection, bytes, .. } => {
                    let inbox = self.inboxes.get_mut(&connection).unwrap();
                    assert_eq!(inbox.closed, None, "nothing is sent behind a close");
                    inbox.bytes.extend_from_slice(&bytes);
                }
                Output::TellRead { connection } => read.push(connection),
                Output::Close { connection, reason } => {
                    self.inboxes.get_mut(&connection).unwrap().closed = Some(reason);
                }
            }
        }
        read
    }

    /// Lets time pass, waking the machine whenever it wants to be woken.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.moment.now.after(span);
        while let Some(wake) = self.machine.next_wake().filter(|wake| *wake <= end) {
            self.advance_to(wake.max(self.moment.now));
            self.handle(Input::Tick);
        }
        self.advance_to(end);
    }

    pub(super) fn shake_hands(&mut self, request: &ConnectRequest) -> (ConnectionId, Option<ConnectResponse>) {
        let connection = self.accept();
        self.bytes(connection, &request.to_frame(FRAME_BYTES_MAX).unwrap());
        let frame = self.frame(connection);
        (connection, frame.map(|frame| ConnectResponse::decode(frame).unwrap()))
    }

    /// A client on a new session.
    pub(super) fn connect(&mut self) -> Peer {
        let (connection, response) = self.shake_hands(&new_session());
        peer(connection, response.unwrap())
    }

    /// A client that goes on with a session.
    pub(super) fn resume(&mut self, former: &Peer) -> Option<Peer> {
        let (connection, response) = self.shake_hands(&ConnectRequest {
            session_id: former.session_id,
            password: Some(former.password.clone()),
            ..new_session()
        });
        let peer = peer(connection, response?);
        (peer.session_id != 0).then_some(peer)
    }

    /// Sends a request and takes the answer; the events before it must have been taken.
    pub(super) fn ask(&mut self, peer: &Peer, request: ZkRequest) -> Result<ZkResponse, ErrorCode> {
        self.ask_seen(peer, request).1
    }

    pub(super) fn ask_seen(&mut self, peer: &Peer, request: ZkRequest) -> (ReplyHeader, Result<ZkResponse, ErrorCode>) {
        let opcode = request.opcode();
        self.bytes(peer.connection, &encode_request(7, &request, FRAME_BYTES_MAX).unwrap());
        let frame = self.frame(peer.connection).expect("an answer");
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        assert_ne!(header.xid, XID_NOTIFICATION, "an event was not expected");
        (header, decode_reply_body(header, opcode, &mut reader).unwrap())
    }

    pub(super) fn events(&mut self, peer: &Peer) -> Vec<(WatchEventKind, String)> {
        let mut events = Vec::new();
        while let Some(frame) = self.frame(peer.connection) {
            let mut reader = Reader::new(frame);
            assert_eq!(ReplyHeader::decode(&mut reader).unwrap().xid, XID_NOTIFICATION);
            let event = WatcherEvent::decode(&mut reader).unwrap();
            events.push((event.kind, event.path));
        }
        events
    }

    /// The next frame that has come.
    pub(super) fn frame(&mut self, connection: ConnectionId) -> Option<Bytes> {
        let inbox = self.inboxes.get_mut(&connection).unwrap();
        inbox.deframer.push(&std::mem::take(&mut inbox.bytes));
        while let Some(frame) = inbox.deframer.next_frame().unwrap() {
            inbox.frames.push_back(frame);
        }
        inbox.frames.pop_front()
    }

    /// The bytes that have come, frames or not.
    pub(super) fn text(&mut self, connection: ConnectionId) -> String {
        String::from_utf8(std::mem::take(&mut self.inboxes.get_mut(&connection).unwrap().bytes)).unwrap()
    }

    pub(super) fn closed(&self, connection: ConnectionId) -> Option<CloseReason> {
        self.inboxes[&connection].closed
    }

    pub(super) fn exists(&mut self, peer: &Peer, path: &str) -> bool {
        self.ask(peer, exists(path, false)).is_ok()
    }

    fn advance_to(&mut self, now: Timestamp) {
        let passed = now.since(self.moment.now);
        self.moment = ClockReading { now, wall_ms: self.moment.wall_ms + i64::try_from(passed.as_millis()).unwrap() };
    }
}

fn peer(connection: ConnectionId, response: ConnectResponse) -> Peer {
    Peer { connection, session_id: response.session_id, password: response.password.unwrap() }
}

pub(super) fn new_session() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: i32::try_from(TIMEOUT.as_millis()).unwrap(),
        session_id: 0,
        password: None,
        read_only: ReadOnlyFlag::No,
    }
}

pub(super) fn node(path: &str, mode: CreateMode) -> Create {
    Create { path: path.into(), data: None, acl: vec![Acl::open()], mode }
}

pub(super) fn create(path: &str) -> ZkRequest {
    ZkRequest::Create2(node(path, CreateMode::Persistent))
}

pub(super) fn create_ephemeral(path: &str) -> ZkRequest {
    ZkRequest::Create2(node(path, CreateMode::Ephemeral))
}

pub(super) fn delete(path: &str) -> ZkRequest {
    ZkRequest::Delete { path: path.into(), version: -1 }
}

pub(super) fn exists(path: &str, watch: bool) -> ZkRequest {
    ZkRequest::Exists { path: path.into(), watch }
}

pub(super) fn raw(code: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes()[..], &7_i32.to_be_bytes(), &code.to_be_bytes(), body].concat()
}

#[test]
fn the_operation_of_a_request_is_written_as_its_number() {
    assert_eq!(raw(OpCode::Ping.code(), &[]), [0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 11]);
}
