//! A way to a server that remembers the sessions made on it, so that a test can have the server end them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::BoxFuture;
use lockkeeper_zk_proto::client::SessionCredentials;
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    ConnectRequest, ConnectResponse, ErrorCode, ReadOnlyFlag, ReplyHeader, ZkRequest, encode_request,
};
use lockkeeper_zookeeper::{Dial, Server, Stream, TcpDial};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf, ReadHalf};
use tokio::net::TcpStream;

/// What servers have answered to handshakes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The sessions granted, oldest first; one that went on is there several times.
    pub(crate) sessions: Vec<SessionCredentials>,
    /// How often a session was refused because it is over, and its client has let go of that connection.
    pub(crate) refusals: usize,
}

/// Dials TCP and notes what servers answer to handshakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SniffingDial {
    seen: Arc<Mutex<Seen>>,
}

impl SniffingDial {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    /// The session granted last.
    pub(crate) fn session(&self) -> Option<SessionCredentials> {
        self.seen().sessions.last().cloned()
    }

    /// Notes a session that was granted; `false` if it was refused.
    fn note(&self, response: ConnectResponse) -> bool {
        let session_id = response.session_id;
        if session_id != 0 {
            self.seen()
                .sessions
                .push(SessionCredentials { session_id, password: response.password.unwrap_or_default() });
        }
        session_id != 0
    }
}

impl Dial for SniffingDial {
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (dialling, seen) = (TcpDial.dial(server), self.clone());
        Box::pin(async move {
            let (reader, writer) = tokio::io::split(dialling.await?);
            let handshake = Some(Deframer::new(FRAME_BYTES_DEFAULT_MAX));
            let reader = Sniffed { inner: reader, handshake, is_refused: false, seen };
            Ok(Box::new(tokio::io::join(reader, writer)) as Box<dyn Stream>)
        })
    }
}

struct Sniffed {
    inner: ReadHalf<Box<dyn Stream>>,
    /// Until the first frame has come.
    handshake: Option<Deframer>,
    is_refused: bool,
    seen: SniffingDial,
}

/// What is only read is not known yet to the client's session.
impl Drop for Sniffed {
    fn drop(&mut self) {
        self.seen.seen().refusals += usize::from(self.is_refused);
    }
}

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Some(mut handshake) = self.handshake.take() {
            handshake.push(&buffer.filled()[before..]);
            match handshake.next_frame() {
                Ok(None) => self.handshake = Some(handshake),
                Ok(Some(frame)) => {
                    if let Ok(response) = ConnectResponse::decode(frame) {
                        self.is_refused = !self.seen.note(response);
                    }
                }
                Err(_) => {}
            }
        }
        read
    }
}

/// How often an ending is tried: its owner may take the session back in between.
const ENDINGS_MAX: usize = 20;

/// Resumes a session on another connection and closes it there: to its owner it has expired. Returns whether it was
/// still there.
pub(crate) async fn expire(server: SocketAddr, session: &SessionCredentials) -> io::Result<bool> {
    for attempt in 0..ENDINGS_MAX {
        if let Ok(was_there) = end(server, session).await {
            // An attempt whose answer was lost may have ended it.
            return Ok(was_there || attempt > 0);
        }
    }
    Err(io::Error::other("the session cannot be ended"))
}

async fn end(server: SocketAddr, session: &SessionCredentials) -> io::Result<bool> {
    let mut stream = TcpStream::connect(server).await?;
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 10_000,
        session_id: session.session_id,
        password: Some(session.password.clone()),
        read_only: ReadOnlyFlag::No,
    };
    let frame = connect.to_frame(FRAME_BYTES_DEFAULT_MAX).map_err(io::Error::other)?;
    let close = encode_request(1, &ZkRequest::CloseSession, FRAME_BYTES_DEFAULT_MAX).map_err(io::Error::other)?;
    stream.write_all(&[&frame[..], &close[..]].concat()).await?;
    let mut deframer = Deframer::new(FRAME_BYTES_DEFAULT_MAX);
    let answer = next_frame(&mut stream, &mut deframer).await?;
    if ConnectResponse::decode(answer).is_ok_and(|response| response.session_id == 0) {
        return Ok(false);
    }
    let mut closed = Reader::new(next_frame(&mut stream, &mut deframer).await?);
    match ReplyHeader::decode(&mut closed).map_err(io::Error::other)?.error {
        ErrorCode::Ok => Ok(true),
        error => Err(io::Error::other(error.to_string())),
    }
}

async fn next_frame(stream: &mut TcpStream, deframer: &mut Deframer) -> io::Result<bytes::Bytes> {
    let mut buffer = [0; 1024];
    loop {
        if let Some(frame) = deframer.next_frame().map_err(io::Error::other)? {
            return Ok(frame);
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        deframer.push(&buffer[..count]);
    }
}
