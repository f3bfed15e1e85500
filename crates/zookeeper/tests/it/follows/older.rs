//! A server that knows no persistent watches, as those before 3.6: a relay that turns the request for one into a
//! request that no server knows.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The number of the request for a persistent watch.
const ADD_WATCH: [u8; 4] = 106_i32.to_be_bytes();

/// A number that no request has.
const UNKNOWN: [u8; 4] = 7_777_i32.to_be_bytes();

/// Where a request has its number, behind the one by which it is answered.
const NUMBER_AT: std::ops::Range<usize> = 4..8;

/// Stands before a server until it is dropped.
#[derive(Debug)]
pub(crate) struct OlderServer {
    address: SocketAddr,
    refusals: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl OlderServer {
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let refusals = Arc::new(AtomicUsize::new(0));
        let count = refusals.clone();
        let accepting = tokio::spawn(async move {
            let mut carrying = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let count = count.clone();
                carrying.spawn(async move {
                    // However it ends, both sides are closed.
                    let _ = carry(client, server, &count).await;
                });
            }
        });
        Self { address, refusals, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::SeqCst)
    }
}

impl Drop for OlderServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(client: TcpStream, server: SocketAddr, refusals: &AtomicUsize) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, mut to_client), (mut from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = requests(from_client, to_server, refusals) => ended,
        ended = tokio::io::copy(&mut from_server, &mut to_client) => ended.map(drop),
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, refusals: &AtomicUsize) -> io::Result<()> {
    loop {
        let length = from.read_u32().await?;
        let mut frame = vec![0; usize::try_from(length).expect("an address is longer")];
        from.read_exact(&mut frame).await?;
        if frame.get(NUMBER_AT) == Some(&ADD_WATCH[..]) {
            refusals.fetch_add(1, Ordering::SeqCst);
            frame[NUMBER_AT].copy_from_slice(&UNKNOWN);
        }
        to.write_all(&[&length.to_be_bytes()[..], &frame].concat()).await?;
    }
}
