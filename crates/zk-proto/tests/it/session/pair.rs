//! A session machine and a server that says what the test tells it to, both on the test's clock.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lockkeeper_zk_proto::client::{
    ClientSession, DisconnectReason, Reply, RequestError, RequestId, SessionConfig, SessionEvent,
};
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX as MAX};
use lockkeeper_zk_proto::message::*;
use lockkeeper_zk_proto::time::Timestamp;

/// The timeout asked for and, unless told otherwise, granted.
pub(super) const TIMEOUT_MS: u64 = 12_000;
pub(super) const SESSION_ID: i64 = 0x0100_0000_0000_0001;

pub(super) struct Pair {
    pub(super) client: ClientSession,
    pub(super) now: u64,
    /// The newest transaction; grows with each reply.
    pub(super) zxid: i64,
    deframer: Deframer,
    arrived: VecDeque<(RequestHeader, ZkRequest)>,
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(SessionConfig::new(Duration::from_millis(TIMEOUT_MS)))
    }

    pub(super) fn with(config: SessionConfig) -> Self {
        let (client, deframer) = (ClientSession::new(config), Deframer::new(MAX));
        Self { client, now: 1_000, zxid: 100, deframer, arrived: VecDeque::new() }
    }

    /// A pair that is online, its first events taken.
    pub(super) fn online() -> Self {
        let mut pair = Self::new();
        pair.go_online();
        pair
    }

    pub(super) fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(super) fn in_ms(&self, millis: u64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(self.now + millis))
    }

    pub(super) fn dial(&mut self) -> ConnectRequest {
        self.try_dial().expect("the handshake goes out at once")
    }

    /// Opens a connection; returns what the handshake asks for, if the session still wants one.
    pub(super) fn try_dial(&mut self) -> Option<ConnectRequest> {
        self.deframer = Deframer::new(MAX);
        self.arrived.clear();
        self.client.handle_connected(self.time());
        let bytes = self.client.poll_transmit(self.time())?;
        self.deframer.push(&bytes);
        Some(ConnectRequest::decode(self.deframer.next_frame().unwrap().unwrap()).unwrap())
    }

    pub(super) fn grant(&mut self, timeout_ms: u64, session_id: i64) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: i32::try_from(timeout_ms).unwrap(),
            session_id,
            password: Some(Bytes::from_static(b"0123456789abcdef")),
            read_only: ReadOnlyFlag::No,
        };
        self.say(&response.to_frame(MAX).unwrap());
    }

    /// Opens a connection, grants what is asked for, and takes the events of it.
    pub(super) fn go_online(&mut self) -> Vec<SessionEvent> {
        self.dial();
        self.grant(TIMEOUT_MS, SESSION_ID);
        let events = self.events();
        assert!(matches!(events[0], SessionEvent::Connected { .. }), "{events:?}");
        events
    }

    pub(super) fn hang_up(&mut self) -> Vec<SessionEvent> {
        self.client.handle_disconnected(self.time());
        self.events()
    }

    /// The server closes the connection, and takes the next.
    pub(super) fn reconnect(&mut self) -> Vec<SessionEvent> {
        self.hang_up();
        self.go_online()
    }

    pub(super) fn say(&mut self, bytes: &BytesMut) {
        self.client.handle_bytes(self.time(), bytes);
    }

    /// Everything that goes out now.
    pub(super) fn pump(&mut self) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while let Some(bytes) = self.client.poll_transmit(self.time()) {
            self.deframer.push(&bytes);
            pieces.push(bytes);
        }
        while let Some(frame) = self.deframer.next_frame().unwrap() {
            let (header, request) = decode_request(frame).unwrap();
            self.arrived.push_back((header, request.unwrap()));
        }
        pieces
    }

    pub(super) fn arrivals(&mut self) -> Vec<(RequestHeader, ZkRequest)> {
        self.pump();
        self.arrived.drain(..).collect()
    }

    /// The same, without their headers.
    pub(super) fn requests(&mut self) -> Vec<ZkRequest> {
        self.arrivals().into_iter().map(|(_, request)| request).collect()
    }

    pub(super) fn arrival(&mut self) -> (RequestHeader, ZkRequest) {
        self.pump();
        self.arrived.pop_front().expect("a request")
    }

    pub(super) fn answer(&mut self, xid: i32, response: &ZkResponse) {
        self.zxid += 1;
        let header = ReplyHeader { xid, zxid: self.zxid, error: ErrorCode::Ok };
        // Servers bound what they take, and not what they send.
        self.say(&encode_reply(header, Some(response), 100 * MAX).unwrap());
    }

    pub(super) fn refuse(&mut self, xid: i32, error: ErrorCode) {
        self.zxid += 1;
        let header = ReplyHeader { xid, zxid: self.zxid, error };
        self.say(&encode_reply(header, None, MAX).unwrap());
    }

    pub(super) fn notify(&mut self, kind: WatchEventKind, path: &str) {
        self.say(&encode_event(-1, &WatcherEvent::new(kind, path), MAX).unwrap());
    }

    pub(super) fn events(&mut self) -> Vec<SessionEvent> {
        std::iter::from_fn(|| self.client.poll_event()).collect()
    }

    pub(super) fn event(&mut self) -> SessionEvent {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(super) fn outcomes(&mut self) -> Vec<(RequestId, Result<ZkResponse, RequestError>)> {
        replies(self.events()).into_iter().map(|reply| (reply.id, reply.outcome)).collect()
    }

    pub(super) fn outcome(&mut self) -> Result<ZkResponse, RequestError> {
        match self.event() {
            SessionEvent::Reply(reply) => reply.outcome,
            other => panic!("no reply: {other:?}"),
        }
    }

    /// Lets time pass, stopping wherever the machine wants to be called.
    pub(super) fn advance_to(&mut self, until: u64) {
        while let Some(due) = self.client.poll_timeout().map(|due| due.as_nanos().div_ceil(1_000_000)) {
            if due > until {
                break;
            }
            let before = self.client.poll_timeout();
            self.now = self.now.max(due);
            self.client.handle_timeout(self.time());
            self.pump();
            assert_ne!(self.client.poll_timeout(), before, "the machine asks for the same time forever");
        }
        self.now = until;
    }

    pub(super) fn submit(&mut self, request: ZkRequest) -> RequestId {
        self.client.submit(&request, None).unwrap()
    }

    pub(super) fn send(&mut self, request: ZkRequest) -> RequestId {
        let id = self.submit(request);
        self.pump();
        id
    }

    pub(super) fn disconnect_reason(&mut self) -> DisconnectReason {
        self.events()
            .into_iter()
            .find_map(|event| match event {
                SessionEvent::Disconnected { reason, .. } => Some(reason),
                _ => None,
            })
            .expect("the connection was given up")
    }
}

pub(super) fn create(path: &str) -> ZkRequest {
    ZkRequest::Create2(Create {
        path: path.into(),
        data: Some(Bytes::new()),
        acl: vec![Acl::open()],
        mode: CreateMode::Ephemeral,
    })
}

pub(super) fn exists(path: &str) -> ZkRequest {
    ZkRequest::Exists { path: path.into(), watch: false }
}

pub(super) fn watch_data(path: &str) -> ZkRequest {
    ZkRequest::GetData { path: path.into(), watch: true }
}

pub(super) fn data() -> ZkResponse {
    ZkResponse::GetData { data: None, stat: Stat::default() }
}

pub(super) fn proof_write() -> ZkRequest {
    ZkRequest::Multi(vec![MultiOperation::Check { path: "/mine".into(), version: -1 }])
}

pub(super) fn proved() -> ZkResponse {
    ZkResponse::Multi(vec![MultiResult::Check])
}

pub(super) fn stat() -> ZkResponse {
    ZkResponse::Stat(Stat::default())
}

pub(super) fn replies(events: Vec<SessionEvent>) -> Vec<Reply> {
    events
        .into_iter()
        .filter_map(|event| match event {
            SessionEvent::Reply(reply) => Some(reply),
            _ => None,
        })
        .collect()
}
