//! One connection's task: bytes in from the stream to the core, bytes out from the core to the stream. The stream is
//! TCP as it is, or TLS over it.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::machine::{MemoryLimits, UNREAD_BYTES_MAX};
use crate::measures::ServerMeasures;
use crate::session::ConnectionId;

#[cfg(feature = "tls")]
use crate::server::tls::Tls;

/// How much is read at a time, in bytes, from a client that sends little.
const READ_BYTES_MIN: usize = 1 << 10;
/// How much is read at a time, in bytes, from a client that sends much.
const READ_BYTES_MAX: usize = 16 << 10;
/// How much of what is ready is written at a time, in bytes; one larger chunk still goes out whole.
const WRITE_BYTES: usize = 64 << 10;
/// How much may still wait for a client, in bytes, when it counts as having read: the link is busy until it is served.
const READ_AGAIN_BYTES: usize = UNREAD_BYTES_MAX / 2;
/// How long a closed connection may take to send what was queued before it was closed.
const LINGER: Duration = Duration::from_secs(5);

/// A client that connected. The core learns of it before its task runs, and so before anything that its task tells.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) id: ConnectionId,
    pub(super) peer: SocketAddr,
    pub(super) link: ClientLink,
}

/// What a connection's task tells the core.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Bytes came, and were read then.
    Bytes(ConnectionId, Bytes, Instant),
    /// The client has read most of what was sent, which was asked for.
    Read(ConnectionId),
    /// Nothing more comes.
    Closed(ConnectionId),
}

/// Bytes to be sent, and the earliest time for it.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    pub(super) due: Option<Instant>,
}

/// Counts what waits for all clients of a server.
#[derive(Debug)]
pub(super) struct Queues {
    bytes: AtomicUsize,
    limits: MemoryLimits,
}

/// Counts what waits for one client, and adds it to what waits for all.
#[derive(Debug)]
struct Queue {
    bytes: AtomicUsize,
    all: Arc<Queues>,
    /// Told after each write, and when reading goes on.
    changed: Notify,
    /// Whether the client's requests are not read at present.
    is_stopped: AtomicBool,
    /// Whether the core is to be told when the client has read.
    is_awaited: AtomicBool,
}

/// The core's end of a connection. Dropping it closes the connection once everything queued was sent.
#[derive(Debug)]
pub(super) struct ClientLink {
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

/// Makes the two ends of a connection.
pub(super) fn link(id: ConnectionId, arrivals: mpsc::Sender<Arrival>, all: Arc<Queues>) -> (ClientLink, LinkTask) {
    let (chunk_sender, chunks) = mpsc::unbounded_channel();
    let (reset_sender, reset) = oneshot::channel();
    let queue = Arc::new(Queue::new(all));
    let link = ClientLink { chunks: chunk_sender, queue: Arc::clone(&queue), reset: reset_sender };
    (link, LinkTask { id, chunks, queue, reset, arrivals })
}

impl Queues {
    pub(super) const fn new(limits: MemoryLimits) -> Self {
        Self { bytes: AtomicUsize::new(0), limits }
    }

    /// Whether a client may have `own` bytes waiting while all have `total`. What one answer takes is always admitted,
    /// until all together are beyond their limit: then each has an equal share.
    const fn admit(&self, own: usize, added: usize, total: usize) -> bool {
        let MemoryLimits { queued_bytes_max, queued_bytes_per_connection_max, connections_max, .. } = self.limits;
        let is_small = own <= queued_bytes_max / connections_max;
        let is_within = own <= queued_bytes_per_connection_max || own == added;
        is_small || is_within && total <= queued_bytes_max
    }
}

impl Queue {
    const fn new(all: Arc<Queues>) -> Self {
        let (is_stopped, is_awaited) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { bytes: AtomicUsize::new(0), all, changed: Notify::const_new(), is_stopped, is_awaited }
    }

    /// Counts bytes in; `false` if they are too many.
    fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let total = self.all.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.all.admit(own, bytes, total)
    }

    /// Counts bytes out; whether the core is to be told that the client has read.
    fn remove(&self, bytes: usize) -> bool {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.changed.notify_waiters();
        self.is_due()
    }

    /// Whether the core waits for the client to read, and it has; says so once.
    fn is_due(&self) -> bool {
        // The core asks and then looks, the task writes and then looks: in one order for all, so that one of them sees
        // what the other has done.
        self.is_awaited.load(Ordering::SeqCst)
            && self.bytes.load(Ordering::SeqCst) <= READ_AGAIN_BYTES
            && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Waits until the client's requests may be read.
    async fn may_be_read(&self) {
        loop {
            let changed = self.changed.notified();
            let waits = self.bytes.load(Ordering::SeqCst) > UNREAD_BYTES_MAX;
            if !waits && !self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl ClientLink {
    /// Queues bytes; `false` if too many are queued already.
    pub(super) fn send(&self, bytes: Bytes, due: Option<Instant>) -> bool {
        let is_admitted = self.queue.add(bytes.len());
        // A task that has ended reports so itself.
        let _ = self.chunks.send(Chunk { bytes, due });
        is_admitted
    }

    /// Has the client's requests not read any more, until [`ClientLink::go_on_reading`].
    pub(super) fn stop_reading(&self) {
        self.queue.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Has the core told by [`Arrival::Read`] when the client has read most of what was sent; `true` if it has already,
    /// and the core is not told again.
    pub(super) fn tell_when_read(&self) -> bool {
        self.queue.is_awaited.store(true, Ordering::SeqCst);
        self.queue.is_due()
    }

    /// Has the client's requests read again.
    pub(super) fn go_on_reading(&self) {
        self.queue.is_stopped.store(false, Ordering::SeqCst);
        self.queue.changed.notify_waiters();
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
            biased;
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
            biased;
            () = reading => false,
            () = write_all(id, &mut writer, &mut chunks, &arrivals, &queue) => false,
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
    let mut read_bytes = READ_BYTES_MIN;
    loop {
        queue.may_be_read().await;
        buffer.reserve(read_bytes);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                // An idle connection keeps a small buffer, a busy one is read in few pieces.
                read_bytes = (2 * count).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
                if arrivals.send(Arrival::Bytes(id, buffer.split().freeze(), Instant::now())).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = arrivals.send(Arrival::Closed(id)).await;
}

/// Writes what is queued, as much at once as is ready, until the core drops its end or the client is gone.
async fn write_all<W>(
    id: ConnectionId,
    writer: &mut W,
    chunks: &mut mpsc::UnboundedReceiver<Chunk>,
    arrivals: &mpsc::Sender<Arrival>,
    queue: &Queue,
) where
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
        if queue.remove(batch.len()) && arrivals.send(Arrival::Read(id)).await.is_err() {
            return;
        }
        batch.clear();
    }
}

/// How clients reach the server.
#[derive(Clone, Debug, Default)]
pub(super) enum Transport {
    #[default]
    Plain,
    #[cfg(feature = "tls")]
    Tls(Tls),
}

impl Transport {
    /// The scheme of the URLs that clients connect to.
    pub(super) const fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "zk",
            #[cfg(feature = "tls")]
            Self::Tls(_) => "zk+tls",
        }
    }

    /// Serves a client that has connected. A handshake is part of its task, so that none holds up another client.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "only TLS refuses clients here"))]
    pub(super) async fn run(self, task: LinkTask, stream: TcpStream, measures: &ServerMeasures) {
        match self {
            Self::Plain => task.run(stream, reset_at_close).await,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let id = task.id();
                let refused = |error: &std::io::Error| {
                    tracing::debug!(connection = %id, %error, "no TLS handshake");
                    measures.refused("tls_handshake");
                };
                let shaken = async { tls.accept(stream).await.inspect_err(refused).ok() };
                task.run_once_open(shaken, |stream| reset_at_close(stream.get_ref().0)).await;
            }
        }
    }
}

/// Has the connection reset instead of closed, as a dying host does.
fn reset_at_close(stream: &TcpStream) {
    // Best effort: a connection that is closed instead ends just as well.
    let _ = stream.set_zero_linger();
}
