//! Just enough of ZooKeeper's protocol to examine a server or a proxy, written from the protocol alone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_faults::proxy::Operation;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection with a session.
pub(crate) struct RawClient {
    stream: TcpStream,
    pub(crate) session: u64,
}

impl RawClient {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut request = vec![0; 12];
        request.extend(i32::try_from(SESSION_TIMEOUT.as_millis()).expect("short").to_be_bytes());
        request.extend([0; 8]);
        request.extend(16_i32.to_be_bytes());
        request.extend([0; 16]);
        stream.write_all(&framed(&request)).await?;
        let mut client = Self { stream, session: 0 };
        let reply = client.frame().await?;
        client.session = u64::from_be_bytes(reply[8..16].try_into().expect("eight bytes"));
        Ok(client)
    }

    /// Sends a request and does not wait for its reply.
    pub(crate) async fn send(&mut self, xid: i32, operation: Operation, body: &[u8]) -> io::Result<()> {
        self.stream.write_all(&request(xid, operation, body)).await
    }

    /// The next reply or notification: its xid and error.
    pub(crate) async fn reply(&mut self) -> io::Result<(i32, i32)> {
        let frame = self.frame().await?;
        let number = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
        Ok((number(0), number(12)))
    }

    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let length = self.stream.read_i32().await?;
        let mut frame = vec![0; usize::try_from(length).expect("no negative length")];
        self.stream.read_exact(&mut frame).await?;
        Ok(frame)
    }
}

fn request(xid: i32, operation: Operation, body: &[u8]) -> Vec<u8> {
    framed(&[&xid.to_be_bytes(), &operation.0.to_be_bytes(), body].concat())
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).expect("short");
    [&length.to_be_bytes(), bytes].concat()
}

fn text(text: &str) -> Vec<u8> {
    let length = i32::try_from(text.len()).expect("short");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// The body of a request to create a node open to all; the flag 1 makes it ephemeral.
pub(crate) fn create(path: &str, flags: i32) -> Vec<u8> {
    let data = 0_i32.to_be_bytes();
    let acl = [1_i32.to_be_bytes(), 31_i32.to_be_bytes()].concat();
    [text(path), data.into(), acl, text("world"), text("anyone"), flags.to_be_bytes().into()].concat()
}
