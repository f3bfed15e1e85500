//! Inputs and outputs of the machine.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use lockkeeper_zk_proto::message::{OpCode, ZkRequest};
use lockkeeper_zk_proto::time::Timestamp;

use crate::session::ConnectionId;

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClockReading {
    /// The clock that never goes back: decides when sessions end.
    pub now: Timestamp,
    /// The wall clock in milliseconds since 1970: written into nodes; it decides only about times to live.
    pub wall_ms: i64,
}

/// Something that happened outside.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the machine handles every one")]
pub enum Input<'a> {
    /// A client connected; the id must be new.
    Accepted {
        /// The new connection.
        connection: ConnectionId,
        /// Its address, which the scheme `ip` uses.
        peer: SocketAddr,
    },
    /// Bytes came, cut anywhere.
    Bytes {
        /// From which connection.
        connection: ConnectionId,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The client has read most of what was sent to it, after [`Output::TellRead`].
    Read {
        /// Which connection.
        connection: ConnectionId,
    },
    /// The connection is gone; no answer can reach it any more.
    Closed {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Time has passed; due at [`super::ServerMachine::next_wake`], harmless at other times.
    Tick,
    /// The session is to end now, as if it had been silent for its timeout.
    Expire {
        /// Which session.
        session_id: i64,
    },
}

/// Something to be done outside, in the order in which it comes.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver carries every one out")]
pub enum Output {
    /// What follows may only be done once this record is safely stored. Only machines that keep records use it.
    Persist(Bytes),
    /// Send bytes to a connection.
    Send {
        /// To which connection.
        connection: ConnectionId,
        /// The bytes.
        bytes: Bytes,
        /// What they are.
        kind: SendKind,
    },
    /// Nothing more is served on this connection until [`Input::Read`] says that the client has read most of what was
    /// sent to it. It must be given once that is so; until then, nothing more should be read from the client.
    TellRead {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Close a connection once everything before this was sent. Nothing more is expected of it.
    Close {
        /// Which connection.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

/// What a server sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a server sends nothing else")]
pub enum SendKind {
    /// The answer to the handshake.
    Handshake,
    /// The reply to a request for the operation with this number.
    Reply(i32),
    /// A watch event.
    Event,
    /// The answer to a four-letter word.
    Report,
}

/// Why a server closes a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client ended its session.
    SessionClosed,
    /// The session expired.
    SessionExpired,
    /// The session asked for in the handshake is over or belongs to another client.
    SessionRefused,
    /// The session went on over another connection.
    SessionMoved,
    /// The client has seen a transaction that this server does not know.
    ClientAhead,
    /// A frame's length is not allowed.
    FrameLength,
    /// A handshake or a request's header could not be read.
    Malformed,
    /// The operation is unknown or not for clients.
    Unimplemented,
    /// The credentials were refused.
    AuthFailed,
    /// No handshake came in time.
    HandshakeTimeout,
    /// A four-letter word was answered.
    Reported,
    /// There are as many connections as there may be.
    ConnectionsFull,
    /// There are as many sessions as there may be.
    SessionsFull,
    /// The connection's watches take more memory than they may.
    WatchesFull,
    /// Requests that have not come whole take more memory than they may.
    RequestsFull,
    /// One push of requests caused more events and answers than there may be.
    AnswersFull,
    /// New sessions cannot be stored at present.
    NotStored,
}

/// A request as a hook sees it, just before it takes effect.
#[derive(Debug)]
#[non_exhaustive]
pub struct SeenRequest<'a> {
    /// The connection it came on.
    pub connection: ConnectionId,
    /// The session of that connection.
    pub session_id: i64,
    /// The client's number for it.
    pub xid: i32,
    /// What is asked for.
    pub request: &'a ZkRequest,
}

/// Sees every request just before it takes effect.
pub type RequestHook = Box<dyn FnMut(&SeenRequest<'_>) + Send>;

impl SeenRequest<'_> {
    /// The operation asked for.
    pub fn opcode(&self) -> OpCode {
        self.request.opcode()
    }
}

impl CloseReason {
    /// The name under which a refusal is counted; `None` if the connection ended as its client or an operator wanted.
    pub(crate) const fn refusal(self) -> Option<&'static str> {
        Some(match self {
            Self::SessionClosed | Self::SessionExpired | Self::SessionMoved | Self::Reported => return None,
            Self::SessionRefused => "session",
            Self::ClientAhead => "client_ahead",
            Self::FrameLength => "frame_length",
            Self::Malformed => "malformed",
            Self::Unimplemented => "unimplemented",
            Self::AuthFailed => "credentials",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::ConnectionsFull => "connections_full",
            Self::SessionsFull => "sessions_full",
            Self::WatchesFull => "watches_full",
            Self::RequestsFull => "requests_full",
            Self::AnswersFull => "answers_full",
            Self::NotStored => "sessions_not_stored",
        })
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SessionClosed => "the client ended its session",
            Self::SessionExpired => "the session expired",
            Self::SessionRefused => "the session asked for is over, or the password is wrong",
            Self::SessionMoved => "the session went on over another connection",
            Self::ClientAhead => "the client has seen a transaction unknown here",
            Self::FrameLength => "a frame's length is outside the allowed range",
            Self::Malformed => "a handshake or a request's header could not be read",
            Self::Unimplemented => "the operation is unknown or not for clients",
            Self::AuthFailed => "the credentials were refused",
            Self::HandshakeTimeout => "no handshake came in time",
            Self::Reported => "a four-letter word was answered",
            Self::ConnectionsFull => "there are as many connections as the memory is for",
            Self::SessionsFull => "there are as many sessions as the memory is for",
            Self::WatchesFull => "its watches take more memory than they may",
            Self::RequestsFull => "requests that have not come whole take more memory than they may",
            Self::AnswersFull => "what it asked for at once would take more memory than answers may",
            Self::NotStored => "new sessions cannot be stored at present",
        })
    }
}
