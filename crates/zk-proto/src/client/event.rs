//! Events of the machine for its driver.

use std::error::Error;
use std::fmt;

use crate::frame::FrameError;
use crate::jute::DecodeError;
use crate::message::{ErrorCode, RequestEffect, WatcherEvent, ZkResponse};
use crate::watch::WatchId;

/// Names a request of a session. Ids grow in the order of submission, which is the order of sending.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub(super) u64);

/// Counts the connections of a session, from 1. A fact of one connection need not be true on the next.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionEpoch(pub(super) u64);

impl RequestId {
    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The watch that the request sets, if it asks for one.
    pub const fn watch(self) -> WatchId {
        WatchId::new(self.0)
    }
}

impl ConnectionEpoch {
    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Tells the driver what happened; the order is that in which it happened, and on a connection that of arrival.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the variants' fields say it")]
pub enum SessionEvent {
    /// A server has accepted the session: requests go out.
    Connected { epoch: ConnectionEpoch },
    /// The server has all our watches again; all missed events came before this.
    ///
    /// Comes on every connection, at once where there are none.
    WatchesRestored { epoch: ConnectionEpoch },
    /// A request is over, each exactly once.
    Reply(Reply),
    /// Something watched happened.
    Watch(WatchNotice),
    /// The connection is of no more use: drop it, then dial anew. The session may live on.
    ///
    /// It is about the connection it names: a driver that takes its events late must not drop the next one for it. The
    /// end of each request that was sent on it follows directly.
    Disconnected { epoch: ConnectionEpoch, reason: DisconnectReason },
    /// The session is over for good: drop the connection, if there is one. Only [`SessionEvent::Reply`] comes after it.
    Over(SessionLoss),
}

/// Tells how a request ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// The connection on which that became known.
    pub epoch: ConnectionEpoch,
    /// The newest transaction the server had applied; 0 if no server has answered.
    pub zxid: i64,
    /// The watch that is set now, if the request asked for one and it is.
    pub watch: Option<WatchId>,
    /// What the server answered, or why there is no answer.
    pub outcome: Result<ZkResponse, RequestError>,
}

/// Tells of a watch event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchNotice {
    /// The connection it came on.
    pub epoch: ConnectionEpoch,
    /// The transaction, from servers that tell it; else −1.
    pub zxid: i64,
    /// What happened.
    pub event: WatcherEvent,
    /// Which of our watches saw it, in the order of asking; empty if those were forgotten meanwhile.
    pub fired: Vec<WatchId>,
}

/// Tells why a request has no good answer.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the variants' fields say it")]
pub enum RequestError {
    /// The server refused it.
    Refused(ErrorCode),
    /// It certainly took no effect: not a byte of it was sent.
    NotSent(WhyUnsent),
    /// It was sent and not answered: a write may have taken effect or may still do so, a read can be asked again.
    Unanswered { effect: RequestEffect, why: WhyUnanswered },
    /// The server did it, but its answer cannot be read.
    Malformed(DecodeError),
}

/// Tells why a request was not sent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver tells every one")]
pub enum WhyUnsent {
    /// Its deadline passed while it waited.
    Deadline,
    /// The session ended.
    Over(SessionLoss),
}

/// Tells why a request was not answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver tells every one")]
pub enum WhyUnanswered {
    /// Its deadline passed.
    Deadline,
    /// The connection was lost.
    ConnectionLost,
    /// The session ended.
    Over(SessionLoss),
}

/// Tells why a connection is of no more use.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The driver said so: the peer closed it, or the network failed.
    Closed,
    /// The handshake was not answered in time.
    HandshakeTimeout,
    /// The server left something unanswered for too long.
    Silent,
    /// The server speaks another protocol, or speaks it wrongly.
    Protocol(ProtocolError),
    /// The server only serves reads: nothing can be held through it.
    ReadOnlyServer,
    /// The server says that the session is attached elsewhere.
    SessionMoved,
    /// The driver asked for a new connection, and all requests on this one are answered.
    Renewed,
}

/// An offence of a server against the protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the variants' fields say it")]
pub enum ProtocolError {
    /// A frame of a length that is not admitted.
    Frame(FrameError),
    /// A message that cannot be read.
    Message(DecodeError),
    /// A reply to another request than the oldest unanswered one; requests are answered in order.
    OutOfOrder { expected: Option<i32>, found: i32 },
    /// An answer to the handshake before it was sent.
    UnaskedHandshake,
    /// A new session was asked for and refused.
    SessionRefused,
    /// Watches were not set again.
    WatchesRefused(ErrorCode),
}

/// Tells why a session is over for good.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum SessionLoss {
    /// The service has ended it.
    Expired,
    /// The service refused our credentials.
    AuthFailed,
    /// We closed it.
    Closed,
    /// No server went on with it for a whole timeout, so that it has most likely ended, and no server says so: a
    /// service whose data went back hangs up on a client that has seen more.
    OutOfReach,
}

/// Tells why a request was not accepted; it took no effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SubmitError {
    /// It is longer than the frame maximum: the server would close the connection, again and again.
    TooLarge(FrameError),
    /// Too many requests, or bytes of them, wait to be sent.
    QueueFull,
    /// The session has too many watches or credentials.
    TooMany,
    /// The machine itself sends such requests: pings, setWatches, auth, closeSession.
    NotSubmittable,
    /// The session is being closed.
    Closing,
    /// The session is over.
    Over(SessionLoss),
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code) => write!(formatter, "the server answered {code}"),
            Self::NotSent(WhyUnsent::Deadline) => formatter.write_str("not sent before the deadline"),
            Self::NotSent(WhyUnsent::Over(reason)) => write!(formatter, "not sent: {reason}"),
            Self::Unanswered { effect, why } => {
                match why {
                    WhyUnanswered::Deadline => formatter.write_str("sent, and not answered before the deadline"),
                    WhyUnanswered::ConnectionLost => formatter.write_str("sent, then the connection was lost"),
                    WhyUnanswered::Over(reason) => write!(formatter, "sent, and not answered: {reason}"),
                }?;
                match effect {
                    RequestEffect::Write => formatter.write_str("; it may have taken effect"),
                    RequestEffect::Read => Ok(()),
                }
            }
            Self::Malformed(error) => write!(formatter, "done, but the answer cannot be read: {error}"),
        }
    }
}

impl Error for RequestError {}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => formatter.write_str("the connection was closed"),
            Self::HandshakeTimeout => formatter.write_str("the server did not answer the handshake in time"),
            Self::Silent => formatter.write_str("the server has gone silent"),
            Self::Protocol(error) => write!(formatter, "not ZooKeeper's protocol: {error}"),
            Self::ReadOnlyServer => formatter.write_str("the server has no quorum, and serves reads alone"),
            Self::SessionMoved => formatter.write_str("the session is attached to another server"),
            Self::Renewed => formatter.write_str("the connection was given up for a new one"),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(formatter),
            Self::Message(error) => error.fmt(formatter),
            Self::OutOfOrder { expected: Some(expected), found } => {
                write!(formatter, "a reply to request {found} where one to {expected} was due")
            }
            Self::OutOfOrder { expected: None, found } => {
                write!(formatter, "a reply to request {found} where none was due")
            }
            Self::UnaskedHandshake => formatter.write_str("an answer before anything was asked"),
            Self::SessionRefused => formatter.write_str("a new session was refused"),
            Self::WatchesRefused(code) => write!(formatter, "watches were not set again: {code}"),
        }
    }
}

impl Error for ProtocolError {}

impl fmt::Display for SessionLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "the session has expired",
            Self::AuthFailed => "the credentials were refused",
            Self::Closed => "the session was closed",
            Self::OutOfReach => "no server went on with the session within its timeout",
        })
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(error) => write!(formatter, "the request is too large: {error}"),
            Self::QueueFull => formatter.write_str("too many requests wait to be sent"),
            Self::TooMany => formatter.write_str("too many watches or credentials"),
            Self::NotSubmittable => formatter.write_str("such a request is sent by the session itself"),
            Self::Closing => formatter.write_str("the session is being closed"),
            Self::Over(reason) => reason.fmt(formatter),
        }
    }
}

impl Error for SubmitError {}
