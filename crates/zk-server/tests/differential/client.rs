//! A minimal client: one socket, requests out, frames in. The test of crashes uses it too.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    ConnectRequest, ConnectResponse, ErrorCode, OpCode, ReadOnlyFlag, ReplyHeader, WatcherEvent, XID_AUTH,
    XID_NOTIFICATION, XID_PING, XID_SET_WATCHES, ZkRequest, ZkResponse, decode_reply_body, encode_request,
};

/// The longest frame on both sides.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// What came.
#[derive(Debug)]
pub(crate) enum Frame {
    Reply(ReplyHeader, Bytes),
    Event(i64, WatcherEvent),
}

/// A session as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) password: Option<Bytes>,
}

impl Session {
    pub(crate) fn none() -> Self {
        Self { id: 0, password: None }
    }
}

/// A connection on a session.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    deframer: Deframer,
    next_xid: i32,
    pub(crate) session: Session,
    pub(crate) timeout_ms: i32,
}

impl Client {
    /// Connects; `None` if the session asked for is refused.
    pub(crate) fn connect(address: SocketAddr, session: &Session, timeout_ms: i32) -> Option<Self> {
        let client =
            Self::try_connect(address, session, timeout_ms).unwrap_or_else(|error| panic!("{address}: {error}"));
        (client.session.id != 0).then_some(client)
    }

    /// Connects to a server that may be gone; the session has no number if that asked for is refused.
    pub(crate) fn try_connect(address: SocketAddr, session: &Session, timeout_ms: i32) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms,
            session_id: session.id,
            password: session.password.clone(),
            read_only: ReadOnlyFlag::No,
        };
        stream.write_all(&request.to_frame(FRAME_BYTES_MAX).unwrap())?;
        let (deframer, session) = (Deframer::new(FRAME_BYTES_MAX), session.clone());
        let mut client = Self { stream, deframer, next_xid: 1, session, timeout_ms: 0 };
        let answer = client.frame()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let response = ConnectResponse::decode(answer).unwrap();
        client.timeout_ms = response.timeout_ms;
        client.session = Session { id: response.session_id, password: response.password };
        Ok(client)
    }

    /// Sends requests at once; returns their xids.
    pub(crate) fn send(&mut self, requests: &[ZkRequest]) -> Vec<i32> {
        let mut bytes = Vec::new();
        let mut xids = Vec::new();
        for request in requests {
            let xid = match request.opcode() {
                OpCode::Ping => XID_PING,
                OpCode::Auth => XID_AUTH,
                OpCode::SetWatches | OpCode::SetWatches2 => XID_SET_WATCHES,
                _ => self.take_xid(),
            };
            bytes.extend_from_slice(&encode_request(xid, request, FRAME_BYTES_MAX).unwrap());
            xids.push(xid);
        }
        // A server that has closed the connection is noticed when its answer is read.
        let _ = self.stream.write_all(&bytes);
        xids
    }

    /// Sends a request with the given bytes.
    pub(crate) fn send_raw(&mut self, code: i32, body: &[u8]) -> i32 {
        let xid = self.take_xid();
        let length = i32::try_from(body.len() + 8).unwrap();
        let bytes = [&length.to_be_bytes(), &xid.to_be_bytes(), &code.to_be_bytes(), body].concat();
        let _ = self.stream.write_all(&bytes);
        xid
    }

    /// The next frame; `None` once the server has closed the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let frame = self.frame().unwrap()?;
        let mut reader = Reader::new(frame.clone());
        let header = ReplyHeader::decode(&mut reader).unwrap();
        Some(if header.xid == XID_NOTIFICATION {
            Frame::Event(header.zxid, WatcherEvent::decode(&mut reader).unwrap())
        } else {
            Frame::Reply(header, frame.slice(reader.position()..))
        })
    }

    /// Asks and waits for the answer; events on the way are lost.
    pub(crate) fn ask(&mut self, request: ZkRequest) -> Result<ZkResponse, ErrorCode> {
        let opcode = request.opcode();
        self.send(&[request]);
        self.answer(opcode).expect("the observer is always answered").1
    }

    /// The next answer; `None` if the server is gone.
    pub(crate) fn answer(&mut self, opcode: OpCode) -> Option<(ReplyHeader, Result<ZkResponse, ErrorCode>)> {
        loop {
            let frame =
                self.frame().inspect_err(|error| assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "in time"));
            let mut reader = Reader::new(frame.ok()??);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            if header.xid != XID_NOTIFICATION {
                return Some((header, decode_reply_body(header, opcode, &mut reader).unwrap()));
            }
        }
    }

    fn take_xid(&mut self) -> i32 {
        self.next_xid += 1;
        self.next_xid - 1
    }

    fn frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(frame) = self.deframer.next_frame().expect("frames of a server") {
                return Ok(Some(frame));
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => self.deframer.push(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}
