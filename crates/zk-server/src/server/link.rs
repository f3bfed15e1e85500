//! One connection's task: bytes in from the stream to the core, bytes out from the core to the stream.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection_id::ConnectionId;

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 16 << 10;
/// How much of what is ready is written at a time, in bytes; one larger chunk still goes out whole.
const WRITE_BYTES: usize = 64 << 10;
/// How much may wait for a client before nothing more is read from it, in bytes: a client that asks must read the
/// answers.
const UNREAD_BYTES: usize = 1 << 20;
/// How much may wait for a client, in bytes, before its connection is cut. Events of other clients' changes also reach
/// a client that does not read.
const QUEUED_BYTES_MAX: usize = 256 << 20;
/// How much may wait for all clients together, in bytes, before the connection that would add to it is cut.
const QUEUED_BYTES_TOTAL_MAX: usize = 2 << 30;
/// How long a closed connection may take to send what was queued before it was closed.
const LINGER: Duration = Duration::from_secs(5);

/// A client that connected. The core learns of it before its task runs, and so before anything that its task tells.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) id: ConnectionId,
    pub(super) peer: SocketAddr,
    pub(super) link: Link,
}

/// What a connection's task tells the core.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Bytes came.
    Bytes(ConnectionId, Bytes),
    /// Nothing more comes.
    Closed(ConnectionId),
}

/// Bytes to be sent, and the earliest time for it.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    pub(super) due: Option<Instant>,
}

/// Counts what waits for one client, and adds it to what waits for all.
#[derive(Debug)]
struct Queue {
    bytes: AtomicUsize,
    total: Arc<AtomicUsize>,
    /// Told after each write.
    written: Notify,
}

/// The core's end of a connection. Dropping it closes the connection once everything queued was sent.
#[derive(Debug)]
pub(super) struct Link {
    chunks: mpsc::UnboundedSender<Chunk>,
    queue: Arc<Queue>,
    reset: oneshot::Sender<()>,
}

/// The task's end of it.
#[derive(Debug)]
pub(super) struct LinkTask {
    id: ConnectionId,
    chunks: mpsc::UnboundedReceiver<Chunk>,
    queue: Arc<Queue>,
    reset: oneshot::Receiver<()>,
    arrivals: mpsc::Sender<Arrival>,
}

/// Makes the two ends of a connection. `total` counts what waits for all clients of a server.
pub(super) fn link(id: ConnectionId, arrivals: mpsc::Sender<Arrival>, total: Arc<AtomicUsize>) -> (Link, LinkTask) {
    let (chunk_sender, chunks) = mpsc::unbounded_channel();
    let (reset_sender, reset) = oneshot::channel();
    let queue = Arc::new(Queue { bytes: AtomicUsize::new(0), total, written: Notify::new() });
    let link = Link { chunks: chunk_sender, queue: Arc::clone(&queue), reset: reset_sender };
    (link, LinkTask { id, chunks, queue, reset, arrivals })
}

impl Queue {
    /// Counts bytes in; `false` if they are too many.
    fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        own <= QUEUED_BYTES_MAX && total <= QUEUED_BYTES_TOTAL_MAX
    }

    /// Counts bytes out.
    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
        self.written.notify_waiters();
    }

    /// Waits until the client has read most of what waits for it.
    async fn is_read(&self) {
        loop {
            let written = self.written.notified();
            if self.bytes.load(Ordering::Relaxed) <= UNREAD_BYTES {
                return;
            }
            written.await;
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.total.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl Link {
    /// Queues bytes; `false` if too many are queued already.
    pub(super) fn send(&self, bytes: Bytes, due: Option<Instant>) -> bool {
        let is_admitted = self.queue.add(bytes.len());
        // A task that has ended reports so itself.
        let _ = self.chunks.send(Chunk { bytes, due });
        is_admitted
    }

    /// Cuts the connection at once; what is queued is lost.
    pub(super) fn reset(self) {
        let _ = self.reset.send(());
    }
}

impl LinkTask {
    /// Serves the stream that `opening` gives, unless it gives none or the connection ends before.
    #[cfg(feature = "tls")]
    pub(super) async fn run_once_open<S>(mut self, opening: impl Future<Output = Option<S>>, cut: fn(&S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = tokio::select! {
            opened = opening => opened,
            // The core has given the connection up, cut or not: nothing was said on it yet.
            _ = &mut self.reset => None,
        };
        match opened {
            Some(stream) => self.run(stream, cut).await,
            None => {
                let _ = self.arrivals.send(Arrival::Closed(self.id)).await;
            }
        }
    }

    #[cfg(feature = "tls")]
    pub(super) const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Serves the stream until either side ends it. `cut` is called on the stream before it is dropped when the
    /// connection is to be cut and not closed.
    pub(super) async fn run<S>(self, stream: S, cut: fn(&S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { id, mut chunks, queue, reset, arrivals } = self;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let reading = async {
            read_all(id, &mut reader, &arrivals, &queue).await;
            // What was asked for before is still answered: a client that sends a word may close its side at once.
            pending::<()>().await;
        };
        let ending = async {
            let is_cut = reset.await.is_ok();
            if !is_cut {
                sleep(LINGER).await;
            }
            is_cut
        };
        let is_cut = tokio::select! {
            () = reading => false,
            () = write_all(&mut writer, &mut chunks, &queue) => false,
            is_cut = ending => is_cut,
        };
        if is_cut {
            cut(&reader.unsplit(writer));
        } else {
            // The client may be gone already.
            let _ = writer.shutdown().await;
        }
        let _ = arrivals.send(Arrival::Closed(id)).await;
    }
}

async fn read_all<R>(id: ConnectionId, reader: &mut R, arrivals: &mpsc::Sender<Arrival>, queue: &Queue)
where
    R: AsyncRead + Unpin,
{
    let mut buffer = BytesMut::new();
    loop {
        queue.is_read().await;
        buffer.reserve(READ_BYTES);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                if arrivals.send(Arrival::Bytes(id, buffer.split().freeze())).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = arrivals.send(Arrival::Closed(id)).await;
}

/// Writes what is queued, as much at once as is ready, until the core drops its end or the client is gone.
async fn write_all<W>(writer: &mut W, chunks: &mut mpsc::UnboundedReceiver<Chunk>, queue: &Queue)
where
    W: AsyncWrite + Unpin,
{
    let mut batch = BytesMut::new();
    let mut next = None;
    loop {
        let chunk = match next.take() {
            Some(chunk) => chunk,
            None => match chunks.recv().await {
                Some(chunk) => chunk,
                None => return,
            },
        };
        if let Some(due) = chunk.due {
            sleep_until(due).await;
        }
        batch.extend_from_slice(&chunk.bytes);
        while batch.len() < WRITE_BYTES {
            match chunks.try_recv() {
                Ok(chunk) if chunk.due.is_none() => batch.extend_from_slice(&chunk.bytes),
                Ok(later) => {
                    next = Some(later);
                    break;
                }
                Err(_) => break,
            }
        }
        if writer.write_all(&batch).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        queue.remove(batch.len());
        batch.clear();
    }
}
