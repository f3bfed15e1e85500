//! A minimal client over any stream.

use std::io;

use bytes::Bytes;
use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateMode, ErrorCode, OpCode, ReadOnlyFlag, ReplyHeader,
    XID_NOTIFICATION, ZkRequest, ZkResponse, decode_reply_body, encode_request,
};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const FRAME_BYTES_MAX: usize = 1 << 20;
const TIMEOUT_MS: i32 = 10_000;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// A connection on a session.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    deframer: Deframer,
    xid: i32,
    pub(crate) session_id: i64,
    pub(crate) password: Option<Bytes>,
}

impl Client {
    /// A new session over a socket.
    pub(crate) async fn tcp(server: &EmbeddedServer) -> Self {
        let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
        Self::open(stream, 0, None).await.unwrap()
    }

    /// A new session in memory.
    pub(crate) async fn duplex(server: &EmbeddedServer) -> Self {
        Self::open(server.connect_duplex(), 0, None).await.unwrap()
    }

    /// The same session over a separate stream.
    pub(crate) async fn resume(&self, stream: impl Stream + 'static) -> io::Result<Self> {
        Self::open(stream, self.session_id, self.password.clone()).await
    }

    pub(crate) async fn open(
        stream: impl Stream + 'static,
        session_id: i64,
        password: Option<Bytes>,
    ) -> io::Result<Self> {
        let mut client = Self {
            stream: Box::new(stream),
            deframer: Deframer::new(usize::MAX),
            xid: 0,
            session_id,
            password: password.clone(),
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: TIMEOUT_MS,
            session_id,
            password,
            read_only: ReadOnlyFlag::No,
        };
        client.stream.write_all(&request.to_frame(FRAME_BYTES_MAX).unwrap()).await?;
        let response = ConnectResponse::decode(client.frame().await?).unwrap();
        client.session_id = response.session_id;
        client.password = response.password;
        match response.session_id {
            0 => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => Ok(client),
        }
    }

    pub(crate) async fn send(&mut self, request: &ZkRequest) -> io::Result<()> {
        self.xid += 1;
        let frame = encode_request(self.xid, request, FRAME_BYTES_MAX).unwrap();
        self.stream.write_all(&frame).await
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn ask(&mut self, request: ZkRequest) -> io::Result<Result<ZkResponse, ErrorCode>> {
        self.send(&request).await?;
        self.answer(request.opcode()).await
    }

    /// The next answer; events on the way are lost.
    pub(crate) async fn answer(&mut self, opcode: OpCode) -> io::Result<Result<ZkResponse, ErrorCode>> {
        loop {
            let mut reader = Reader::new(self.frame().await?);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            if header.xid != XID_NOTIFICATION {
                return Ok(decode_reply_body(header, opcode, &mut reader).unwrap());
            }
        }
    }

    pub(crate) async fn frame(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(frame) = self.deframer.next_frame().unwrap() {
                return Ok(frame);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.deframer.push(&buffer[..length]),
            }
        }
    }
}

pub(crate) fn create(path: &str) -> ZkRequest {
    create_as(path, CreateMode::Persistent)
}

pub(crate) fn create_as(path: &str, mode: CreateMode) -> ZkRequest {
    ZkRequest::Create(Create { path: path.into(), data: None, acl: vec![Acl::open()], mode })
}

pub(crate) fn exists(path: &str, watch: bool) -> ZkRequest {
    ZkRequest::Exists { path: path.into(), watch }
}
