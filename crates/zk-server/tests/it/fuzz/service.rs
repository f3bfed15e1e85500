//! A machine with two clients: one that sends anything, and one that must not notice; the targets on it.

use std::net::SocketAddr;

use bytes::Bytes;
use lockkeeper_zk_proto::frame::{Deframer, FrameError};
use lockkeeper_zk_proto::message::{
    Acl, ConnectRequest, Create, CreateMode, OpCode, ReadOnlyFlag, XID_NOTIFICATION, XID_PING, ZkRequest,
    decode_request, encode_request,
};
use lockkeeper_zk_proto::time::Timestamp;
use lockkeeper_zk_server::machine::{
    ClockReading, CloseReason, Input, MachineSettings, Output, SendKind, ServerMachine,
};
use lockkeeper_zk_server::{ConnectionId, Seed};
use proptest::prelude::*;

use crate::fuzz::mutation::{config, files, mutated};

const FRAME_BYTES_MAX: usize = 1 << 20;
/// How much one input may be answered with: a request of a megabyte at most, beside nodes that hold little.
const ANSWERED_BYTES_MAX: usize = 256 << 20;
const WALL_MS: i64 = 1_800_000_000_000;
const GOOD: ConnectionId = ConnectionId::new(1);
const BAD: ConnectionId = ConnectionId::new(2);

/// What happened to the bad one.
#[derive(Debug, Default, Eq, PartialEq)]
struct Fate {
    /// The answers but for events, each a frame without its length, or a text.
    answers: Vec<Bytes>,
    closed: Option<CloseReason>,
}

struct Service {
    machine: ServerMachine,
    bad_bytes: Vec<u8>,
    bad_closed: Option<CloseReason>,
    /// The kinds of what was sent to the good one.
    good_kinds: Vec<SendKind>,
}

impl Service {
    /// The good one has a session, a node and a watch; the bad one has connected.
    fn new() -> Self {
        let seed = Seed { secret: [5; 32], wall_ms: WALL_MS };
        let machine = ServerMachine::new(MachineSettings::default(), seed, moment());
        let mut service = Self { machine, bad_bytes: Vec::new(), bad_closed: None, good_kinds: Vec::new() };
        for connection in [GOOD, BAD] {
            service.handle(Input::Accepted { connection, peer: SocketAddr::from(([127, 0, 0, 1], 40_000)) });
        }
        service.send(GOOD, &handshake());
        let node = Create {
            path: "/a".to_owned(),
            data: Some(Bytes::from_static(b"data")),
            acl: vec![Acl::open()],
            mode: CreateMode::Persistent,
        };
        service.send(GOOD, &framed(&ZkRequest::Create(node)));
        service.send(GOOD, &framed(&ZkRequest::GetChildren { path: "/a".to_owned(), watch: true }));
        service
    }

    /// The same with a session for the bad one, which has nothing to read yet.
    fn with_session() -> Self {
        let mut service = Self::new();
        service.send(BAD, &handshake());
        service.bad_bytes.clear();
        service
    }

    fn send_bad(&mut self, bytes: &[u8]) {
        self.send(BAD, bytes);
    }

    /// Checks that the good one is served as before, and tells what happened to the other.
    fn end(mut self) -> Fate {
        self.good_kinds.clear();
        self.send(GOOD, &framed(&ZkRequest::Exists { path: "/".to_owned(), watch: false }));
        assert_eq!(self.good_kinds, [SendKind::Reply(OpCode::Exists.code())], "another client is served as before");
        if self.bad_closed == Some(CloseReason::Reported) {
            // A word is answered with text.
            return Fate { answers: vec![self.bad_bytes.into()], closed: self.bad_closed };
        }
        let mut deframer = Deframer::new(ANSWERED_BYTES_MAX);
        deframer.push(&self.bad_bytes);
        let frames = std::iter::from_fn(|| deframer.next_frame().expect("whole frames"));
        let is_event = |frame: &Bytes| frame.starts_with(&XID_NOTIFICATION.to_be_bytes());
        Fate { answers: frames.filter(|frame| !is_event(frame)).collect(), closed: self.bad_closed }
    }

    fn zxid(&self) -> i64 {
        self.machine.zxid()
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.handle(Input::Bytes { connection, bytes });
    }

    fn handle(&mut self, input: Input<'_>) {
        self.machine.handle(moment(), input);
        let mut read = self.take_outputs();
        while let Some(connection) = read.pop() {
            self.machine.handle(moment(), Input::Read { connection });
            read.extend(self.take_outputs());
        }
    }

    /// Takes what is sent; returns the connections that are served no further until it is read.
    fn take_outputs(&mut self) -> Vec<ConnectionId> {
        let mut read = Vec::new();
        assert!(self.machine.answered_bytes() <= ANSWERED_BYTES_MAX);
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Send { connection: BAD, bytes, .. } => {
                    assert_eq!(self.bad_closed, None, "nothing is sent behind a close");
                    self.bad_bytes.extend_from_slice(&bytes);
                }
                Output::Send { kind, .. } => self.good_kinds.push(kind),
                Output::Close { connection, reason } => {
                    // A good client's session may be taken by a client that knows its password; chance does not.
                    assert_eq!(connection, BAD, "another client's connection is closed: {reason}");
                    self.bad_closed = Some(reason);
                }
                Output::TellRead { connection } => read.push(connection),
                Output::Persist(_) => {}
            }
        }
        read
    }
}

fn moment() -> ClockReading {
    ClockReading { now: Timestamp::from_millis(1_000), wall_ms: WALL_MS }
}

/// Opens a session; also the beginning of what lies in the corpus of streams.
fn handshake() -> Bytes {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 10_000,
        session_id: 0,
        password: None,
        read_only: ReadOnlyFlag::No,
    };
    request.to_frame(FRAME_BYTES_MAX).unwrap().freeze()
}

fn framed(request: &ZkRequest) -> Bytes {
    encode_request(1, request, FRAME_BYTES_MAX).unwrap().freeze()
}

const STREAMS: &str = "streams";

/// The frames up to the first that is refused, and why that is.
fn frames(pieces: &[&[u8]]) -> (Vec<Bytes>, Option<FrameError>) {
    let mut deframer = Deframer::new(FRAME_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        deframer.push(piece);
        loop {
            match deframer.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn fate(pieces: &[&[u8]]) -> (Fate, i64) {
    let mut service = Service::new();
    pieces.iter().for_each(|piece| service.send_bad(piece));
    let zxid = service.zxid();
    (service.end(), zxid)
}

/// In any pieces, the same bytes have the same result, and no other client notices.
fn check_stream(bytes: &[u8], piece_bytes: usize) {
    let pieces: Vec<_> = bytes.chunks(piece_bytes).collect();
    assert_eq!(frames(&[bytes]), frames(&pieces));
    assert_eq!(fate(&[bytes]), fate(&pieces));
}

#[test]
fn the_kept_streams_end_alike_however_they_are_cut() {
    for bytes in files(STREAMS) {
        [1, 3, 7, 64].into_iter().for_each(|piece_bytes| check_stream(&bytes, piece_bytes));
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn changed_streams_end_alike_however_they_are_cut(bytes in mutated(STREAMS), piece_bytes in 1..100_usize) {
        check_stream(&bytes, piece_bytes);
    }
}

const REQUESTS: &str = "requests";
/// The xid in front, in bytes.
const XID_BYTES: usize = 4;

/// A request is read or refused; what is read is written as it was meant; it has one answer or ends its connection.
fn check_request(body: &[u8]) {
    let decoded = decode_request(Bytes::copy_from_slice(body));
    if let Ok((header, Ok(request))) = &decoded {
        let written = encode_request(header.xid, request, FRAME_BYTES_MAX).unwrap().freeze();
        let (again_header, again) = decode_request(written.slice(4..)).unwrap();
        assert_eq!((again_header.xid, again.unwrap()), (header.xid, request.clone()));
    }
    let mut service = Service::with_session();
    let length = i32::try_from(body.len()).unwrap();
    service.send_bad(&[&length.to_be_bytes(), body].concat());
    // An event is told from an answer by its xid, which a request may bear too.
    let looks_like_event = body.starts_with(&(-1_i32).to_be_bytes());
    let is_ping = matches!(decoded, Ok((_, Ok(ZkRequest::Ping))));
    let fate = service.end();
    match fate.answers.as_slice() {
        [] => assert!(fate.closed.is_some() || looks_like_event, "{fate:?} of {decoded:?}"),
        // Pings have the xid of pings, with any xid from the client.
        [answer] if is_ping => assert!(answer.starts_with(&XID_PING.to_be_bytes()), "{decoded:?}"),
        [answer] => assert_eq!(answer[..XID_BYTES], body[..XID_BYTES], "{decoded:?}"),
        more => panic!("{more:?} of {decoded:?}"),
    }
}

#[test]
fn the_kept_requests_have_one_answer_each() {
    files(REQUESTS).iter().for_each(|body| check_request(body));
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn changed_requests_have_one_answer_or_end_their_connection(body in mutated(REQUESTS)) {
        check_request(&body);
    }
}
