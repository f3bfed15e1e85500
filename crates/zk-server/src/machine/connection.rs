//! One connection, from its first bytes to its end.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::message::Id;
use lockkeeper_zk_proto::time::Timestamp;

use crate::auth::IP;
use crate::machine::io::ClockReading;

/// The length of a four-letter word, and of the length in front of a frame.
pub(super) const HEAD_BYTES: usize = 4;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ConnectionStage {
    /// Its first four bytes are not there yet; they may be a word instead of a length.
    Head,
    /// Its first frame asks for a session.
    Handshake,
    /// It is on a session.
    Serving,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    pub(super) stage: ConnectionStage,
    pub(super) deframer: Deframer,
    pub(super) head: Vec<u8>,
    /// Who sends its requests. Replaced as a whole, since each request is judged by the identities at its arrival.
    pub(super) identities: Arc<[Id]>,
    pub(super) session_id: i64,
    /// The timeout negotiated on this connection, which need not be the session's first one.
    pub(super) timeout_ms: i32,
    pub(super) handshake_deadline: Timestamp,
    pub(super) established_ms: i64,
    /// What was sent, and the driver has not said is read, in bytes.
    pub(super) unread_bytes: usize,
    /// Whether the driver is to say when that is read; nothing is served before.
    pub(super) is_awaited: bool,
    /// How much of `deframer` is counted with all connections.
    pub(super) request_bytes: usize,
    pub(super) received_count: u64,
    pub(super) sent_count: u64,
    pub(super) last: LastReply,
}

/// The latest reply, for the report on connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastReply {
    pub(super) operation: &'static str,
    pub(super) xid: i32,
    pub(super) zxid: i64,
    pub(super) at_ms: i64,
}

impl Connection {
    pub(super) fn new(
        peer: SocketAddr,
        frame_bytes_max: usize,
        moment: ClockReading,
        handshake_deadline: Timestamp,
    ) -> Self {
        let address = Id { scheme: IP.to_owned(), id: peer.ip().to_string() };
        Self {
            peer,
            stage: ConnectionStage::Head,
            deframer: Deframer::new(frame_bytes_max),
            head: Vec::with_capacity(HEAD_BYTES),
            identities: [address].into(),
            session_id: 0,
            timeout_ms: 0,
            handshake_deadline,
            established_ms: moment.wall_ms,
            unread_bytes: 0,
            is_awaited: false,
            request_bytes: 0,
            received_count: 0,
            sent_count: 0,
            last: LastReply { operation: "NA", ..LastReply::default() },
        }
    }

    pub(super) fn add_identity(&mut self, identity: Id) {
        if !self.identities.contains(&identity) {
            self.identities = self.identities.iter().cloned().chain([identity]).collect();
        }
    }
}
