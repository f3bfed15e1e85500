//! The handshake: the first frame each way on a connection, without headers.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::frame::{FrameError, build_frame};
use crate::jute::{DecodeError, Reader, Writer};

/// Tells whether a handshake message ends in the flag for read-only servers, which came with ZooKeeper 3.4.
///
/// A server answers in the form in which it was asked.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the handshake has these forms")]
pub enum ReadOnlyFlag {
    /// The old form, without the flag.
    Absent,
    /// The flag is there: false.
    No,
    /// The flag is there: true.
    Yes,
}

impl ReadOnlyFlag {
    fn encode(self, writer: &mut Writer) {
        match self {
            Self::Absent => (),
            Self::No => writer.boolean(false),
            Self::Yes => writer.boolean(true),
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        if reader.left() == 0 {
            return Ok(Self::Absent);
        }
        Ok(if reader.boolean("readOnly")? { Self::Yes } else { Self::No })
    }
}

/// Asks for a session, a new one or one that existed before.
#[derive(Clone, Eq, PartialEq)]
pub struct ConnectRequest {
    /// Always 0.
    pub protocol_version: i32,
    /// The newest transaction the client knows of; a server that is behind refuses the connection.
    pub last_zxid_seen: i64,
    /// The session timeout asked for, in milliseconds.
    pub timeout_ms: i32,
    /// The session to go on with; 0 for a new one.
    pub session_id: i64,
    /// The session's password; null and 16 zero bytes both stand for none.
    pub password: Option<Bytes>,
    /// Whether a server that only serves reads is accepted.
    pub read_only: ReadOnlyFlag,
}

/// Answers a [`ConnectRequest`].
#[derive(Clone, Eq, PartialEq)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// The session timeout granted, in milliseconds; 0 or less says that the session asked for is over.
    pub timeout_ms: i32,
    /// The session.
    pub session_id: i64,
    /// Its password, needed to go on with it on another connection.
    pub password: Option<Bytes>,
    /// Whether this server only serves reads.
    pub read_only: ReadOnlyFlag,
}

impl ConnectRequest {
    /// Encodes it as a whole frame.
    pub fn to_frame(&self, length_max: usize) -> Result<BytesMut, FrameError> {
        build_frame(length_max, |writer| {
            writer.i32(self.protocol_version);
            writer.i64(self.last_zxid_seen);
            writer.i32(self.timeout_ms);
            writer.i64(self.session_id);
            writer.buffer(self.password.as_deref());
            self.read_only.encode(writer);
        })
    }

    /// Decodes the body of a frame; without its last byte it is a request of the old form.
    pub fn decode(frame: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.i32("protocolVersion")?,
            last_zxid_seen: reader.i64("lastZxidSeen")?,
            timeout_ms: reader.i32("timeOut")?,
            session_id: reader.i64("sessionId")?,
            password: reader.buffer("passwd")?,
            read_only: ReadOnlyFlag::decode(&mut reader)?,
        })
    }
}

impl ConnectResponse {
    /// Encodes it as a whole frame.
    pub fn to_frame(&self, length_max: usize) -> Result<BytesMut, FrameError> {
        build_frame(length_max, |writer| {
            writer.i32(self.protocol_version);
            writer.i32(self.timeout_ms);
            writer.i64(self.session_id);
            writer.buffer(self.password.as_deref());
            self.read_only.encode(writer);
        })
    }

    /// Decodes the body of a frame; without its last byte it is an answer of the old form.
    pub fn decode(frame: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.i32("protocolVersion")?,
            timeout_ms: reader.i32("timeOut")?,
            session_id: reader.i64("sessionId")?,
            password: reader.buffer("passwd")?,
            read_only: ReadOnlyFlag::decode(&mut reader)?,
        })
    }
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConnectRequest")
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConnectResponse")
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
