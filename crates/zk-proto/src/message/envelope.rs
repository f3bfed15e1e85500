//! The headers around requests, replies and events, and whole frames in both directions.

use bytes::{Bytes, BytesMut};

use crate::frame::{FrameError, build_frame};
use crate::jute::{DecodeError, Reader, Writer};
use crate::message::error_code::ErrorCode;
use crate::message::opcode::OpCode;
use crate::message::request::ZkRequest;
use crate::message::response::ZkResponse;
use crate::message::watch::WatcherEvent;

/// The xid in the header of a watch event.
pub const XID_NOTIFICATION: i32 = -1;
/// The xid of a ping and its reply.
pub const XID_PING: i32 = -2;
/// The xid of an authentication and its reply.
pub const XID_AUTH: i32 = -4;
/// The xid of setWatches and its reply.
pub const XID_SET_WATCHES: i32 = -8;
/// The first xid of an ordinary request; they grow by one and start again here after `i32::MAX`.
pub const XID_FIRST: i32 = 1;

/// Stands in front of each request but the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestHeader {
    /// The client's number for the request, repeated in the reply.
    pub xid: i32,
    /// The number of the operation; not necessarily a known one.
    pub code: i32,
}

/// Stands in front of each reply but the handshake, and of each event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplyHeader {
    /// The xid of the request, or [`XID_NOTIFICATION`].
    pub xid: i32,
    /// The newest transaction the server has applied; −1 in events of older servers.
    pub zxid: i64,
    /// How the request ended.
    pub error: ErrorCode,
}

impl RequestHeader {
    /// Reads it.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { xid: reader.i32("xid")?, code: reader.i32("type")? })
    }
}

impl ReplyHeader {
    /// Writes it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i32(self.xid);
        writer.i64(self.zxid);
        writer.i32(self.error.code());
    }

    /// Reads it.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (xid, zxid) = (reader.i32("xid")?, reader.i64("zxid")?);
        Ok(Self { xid, zxid, error: ErrorCode::from_code(reader.i32("err")?) })
    }
}

/// Encodes a request as a whole frame.
pub fn encode_request(xid: i32, request: &ZkRequest, length_max: usize) -> Result<BytesMut, FrameError> {
    build_frame(length_max, |writer| {
        writer.i32(xid);
        writer.i32(request.opcode().code());
        request.encode(writer);
    })
}

/// Decodes the body of a frame from a client, any but its first.
///
/// # Errors
///
/// The outer error says that there is not even a header. The inner one says why the request itself cannot be read; the
/// server can answer it under the header's xid.
pub fn decode_request(frame: Bytes) -> Result<(RequestHeader, Result<ZkRequest, DecodeError>), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    Ok((header, ZkRequest::decode(header.code, &mut reader)))
}

/// Encodes a reply as a whole frame; `None` for `response` when the header says it all.
pub fn encode_reply(
    header: ReplyHeader,
    response: Option<&ZkResponse>,
    length_max: usize,
) -> Result<BytesMut, FrameError> {
    build_frame(length_max, |writer| {
        header.encode(writer);
        if let Some(response) = response {
            response.encode(writer);
        }
    })
}

/// Encodes a watch event as a whole frame.
pub fn encode_event(zxid: i64, event: &WatcherEvent, length_max: usize) -> Result<BytesMut, FrameError> {
    build_frame(length_max, |writer| {
        ReplyHeader { xid: XID_NOTIFICATION, zxid, error: ErrorCode::Ok }.encode(writer);
        event.encode(writer);
    })
}

/// Decodes what follows the header of a reply: the response, or the error the header names.
///
/// After an error nothing more is read; some servers send a body then too.
pub fn decode_reply_body(
    header: ReplyHeader,
    opcode: OpCode,
    reader: &mut Reader,
) -> Result<Result<ZkResponse, ErrorCode>, DecodeError> {
    match header.error {
        ErrorCode::Ok => ZkResponse::decode(opcode, reader).map(Ok),
        error => Ok(Err(error)),
    }
}
