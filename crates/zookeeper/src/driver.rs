//! The one task with the socket: dials, moves bytes between the socket and the session machine, and keeps its timers.
//!
//! It knows no lock and no request. It ends when the session is over; if its runtime ends before, the connection still
//! sends the queued bytes and the end of the session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Failure, FailureKind, Lookup, Lookups, Server, Stream, Ways, within};
use lockkeeper_zk_proto::client::ClientSession;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

use crate::config::DialShare;
use crate::dial::Dial;
use crate::link::SessionLink;

/// How many bytes one read takes at most: some hundred replies.
const READ_BYTES_MAX: usize = 64 * 1024;

/// The failure of a server that ends the connection without an answer.
const HANGS_UP: &str = "; a server hangs up that has no quorum, or too many connections from this address \
     (`maxClientCnxns`)";

/// How often the driver lets other tasks go first before it writes: each turn takes some microseconds.
const GATHER_TURNS_MAX: u32 = 16;

pub(crate) struct Driver {
    link: Arc<SessionLink>,
    dial: Arc<dyn Dial>,
    ways: Ways,
    share: DialShare,
    /// The names of this round whose addresses are not known yet.
    lookups: Lookups,
    /// Whether some way of this round has let its time pass without an answer, which may come the next time.
    is_round_silent: bool,
    clock: Arc<dyn Clock>,
    alarm: DriverTimer,
    chores: JoinSet<()>,
}

/// Tells all waiting calls when the driver is gone, also when its runtime was shut down.
struct EndNotice(Arc<SessionLink>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Driver {
    pub(crate) fn new(link: Arc<SessionLink>, dial: Arc<dyn Dial>, ways: Ways, share: DialShare) -> Self {
        let clock = link.clock.clone();
        let (alarm, chores) = (DriverTimer::new(clock.clone()), JoinSet::new());
        Self { link, dial, ways, share, lookups: Lookups::default(), is_round_silent: false, clock, alarm, chores }
    }

    /// Runs until the session is over, or every server has refused to open it.
    pub(crate) async fn run(mut self) {
        let _ending = EndNotice(self.link.clone());
        while !self.link.is_finished() {
            if self.ways.is_round_over() && self.find_ways().await.is_none() {
                break;
            }
            if let Some(way) = self.ways.next() {
                let Some(dialled) = self.dial(&way).await else {
                    break;
                };
                match dialled {
                    Ok(stream) => {
                        let lasted = self.serve(stream, &way).await;
                        if self.ways.broke(&way, lasted) {
                            self.lookups = Lookups::default();
                        }
                        if self.link.is_renewing() {
                            self.ways.try_again(way);
                        }
                    }
                    Err(error) => self.fail(&way, Failure::of_io(&error)),
                }
            }
            let is_round_over = self.ways.is_round_over() && self.lookups.is_empty();
            if self.link.is_opening() && is_round_over && !self.is_round_silent {
                // Whether and when to try again is for the retry policy of the caller of the session.
                break;
            }
        }
        // The chores learn that the session is over, and tell their callers.
        self.run_chores();
        self.link.end();
        while self.chores.join_next().await.is_some() {}
    }

    /// Finds more ways after all are tried: the ways of the next resolved name, or else a new round of all of them;
    /// `None` if the session is over meanwhile.
    async fn find_ways(&mut self) -> Option<()> {
        if self.lookups.is_empty() {
            return self.begin_round().await;
        }
        let mut lookups = std::mem::take(&mut self.lookups);
        let (lookups, lookup) = self
            .attend(async move {
                let lookup = lookups.next().await;
                (lookups, lookup)
            })
            .await?;
        self.lookups = lookups;
        let ways = self.ways_of(lookup);
        self.ways.join_round(ways);
        Some(())
    }

    /// Begins a round with the ways that are known first, after a pause if there was a round before; `None` if the
    /// session is over meanwhile.
    async fn begin_round(&mut self) -> Option<()> {
        let (pause, limit) = (self.ways.pause(), self.share.dial_max(self.ways.servers().len()));
        let (clock, dial, servers) = (self.clock.clone(), self.dial.clone(), self.ways.servers().to_vec());
        let resolving = async move {
            if !pause.is_zero() {
                clock.sleep_until(clock.now().saturating_add(pause)).await;
            }
            let mut lookups = Lookups::begin(|server| dial.resolve(server), &clock, &servers, limit);
            let first = lookups.first(&clock).await;
            (lookups, first)
        };
        let (lookups, first) = self.attend(resolving).await?;
        (self.lookups, self.is_round_silent) = (lookups, false);
        let ways = self.ways_of(first);
        self.ways.begin_round(ways);
        Some(())
    }

    fn ways_of(&mut self, lookups: impl IntoIterator<Item = Lookup>) -> Vec<Server> {
        let mut ways = Vec::new();
        for Lookup { server, resolved, .. } in lookups {
            self.link.forget_failures_but(&server, resolved.as_deref().unwrap_or_default());
            match resolved {
                Ok(addresses) => ways.extend(addresses),
                Err(error) => self.fail(&server, Failure::of_io(&error)),
            }
        }
        ways
    }

    /// How many ways this round has, as far as it is known.
    fn ways_max(&self) -> usize {
        self.ways.ways().len() + self.lookups.len()
    }

    /// Dials one way, for as long as its share of the time; `None` if the session is over meanwhile.
    async fn dial(&mut self, way: &Server) -> Option<io::Result<Box<dyn Stream>>> {
        let limit = self.share.dial_max(self.ways_max());
        let (clock, dialling) = (self.clock.clone(), self.dial.dial(way));
        self.attend(async move { within(&clock, limit, "no connection", dialling).await }).await
    }

    /// Waits for this work, while deadlines of waiting requests are kept; `None` if the session is over meanwhile.
    async fn attend<T>(&mut self, work: impl Future<Output = T> + Send) -> Option<T> {
        tokio::pin!(work);
        loop {
            self.run_chores();
            self.alarm.set(self.link.poll_timeout());
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = self.link.wake.notified() => {}
                () = self.alarm.rings() => self.link.handle_timeout(),
            }
            if self.link.is_finished() {
                return None;
            }
        }
    }

    fn fail(&mut self, way: &Server, failure: Failure) {
        self.is_round_silent |= failure.kind == FailureKind::Deadline;
        self.link.note_failure(way, failure);
    }

    /// Serves one connection until it is of no more use; returns for how long requests went out on it.
    ///
    /// Bytes that have arrived are read before the timer is checked, so that a process that was stopped does not give
    /// up a good connection.
    async fn serve(&mut self, stream: Box<dyn Stream>, way: &Server) -> Duration {
        let mut connection = Connection::new(self.link.clone(), stream);
        let mut input = BytesMut::with_capacity(READ_BYTES_MAX);
        let mut is_flushed = true;
        let mut broken = None;
        let mut arrived_at = None;
        let handshake_max = self.share.handshake_max(self.ways_max());
        self.link.drive(|machine, now| {
            machine.limit_handshakes(handshake_max);
            machine.handle_connected(now);
        });
        while self.link.is_attached() {
            self.run_chores();
            if arrived_at.is_none() && self.link.status_now().phase.is_online() {
                arrived_at = Some(self.clock.now());
                self.ways.arrived(way);
            }
            if is_flushed {
                gather(&self.link).await;
                connection.output = self.link.poll_transmit();
                is_flushed = connection.output.is_empty();
            }
            self.alarm.set(self.link.poll_timeout());
            tokio::select! {
                biased;
                read = connection.reader.read_buf(&mut input) => match read {
                    Ok(count) if count > 0 => {
                        self.link.drive(|machine, now| machine.handle_bytes(now, &input));
                        input.clear();
                    }
                    Ok(_) => self.link.drive(ClientSession::handle_disconnected),
                    Err(error) => {
                        broken = Some(error);
                        self.link.drive(ClientSession::handle_disconnected);
                    }
                },
                written = write(&mut connection.writer, &mut connection.output), if !is_flushed => match written {
                    Ok(()) => is_flushed = true,
                    Err(error) => {
                        broken = Some(error);
                        self.link.drive(ClientSession::handle_disconnected);
                    }
                },
                () = self.link.wake.notified() => {}
                () = self.alarm.rings() => self.link.handle_timeout(),
            }
        }
        let trouble = self.link.take_trouble();
        // The stream's own error says more than that the connection broke, unless the error is an end of the stream.
        let broken =
            broken.filter(|error| error.kind() != io::ErrorKind::UnexpectedEof).map(|error| Failure::of_io(&error));
        if let Some(failure) = broken.or(trouble) {
            let is_unanswered = arrived_at.is_none() && failure.kind == FailureKind::Broken;
            self.fail(way, if is_unanswered { failure.with_hint(HANGS_UP) } else { failure });
        }
        arrived_at.map_or(Duration::ZERO, |at| self.clock.now().saturating_duration_since(at))
    }

    fn run_chores(&mut self) {
        for chore in self.link.take_chores() {
            self.chores.spawn(chore);
        }
        while self.chores.try_join_next().is_some() {}
    }
}

/// Lets the callers with new answers send their next requests while more of them still do, so that these leave in
/// one write: deletions as one transaction, and joins with one list.
async fn gather(link: &SessionLink) {
    let mut before = 0;
    for _ in 0..GATHER_TURNS_MAX {
        match link.gathered() {
            Some(queued) if queued != before => before = queued,
            _ => return,
        }
        tokio::task::yield_now().await;
    }
}

/// Writes all of `output` and flushes it: a stream that encrypts may hold back what it took. Dropped halfway, it leaves
/// in `output` the unwritten rest, and can be begun anew.
async fn write(writer: &mut WriteHalf<Box<dyn Stream>>, output: &mut Bytes) -> io::Result<()> {
    writer.write_all_buf(output).await?;
    writer.flush().await
}

/// One timer that is armed rarely and may ring early: requests move the next deadline with every reply, and a new timer
/// for each would cost more than the request.
struct DriverTimer {
    clock: Arc<dyn Clock>,
    armed: Option<(BootInstant, BoxFuture<()>)>,
}

impl DriverTimer {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, armed: None }
    }

    /// Makes sure that it rings at `deadline` or before; it may still ring at an earlier one that was set before.
    fn set(&mut self, deadline: Option<BootInstant>) {
        let Some(deadline) = deadline else {
            return;
        };
        if self.armed.as_ref().is_none_or(|(at, _)| deadline < *at) {
            self.armed = Some((deadline, self.clock.sleep_until(deadline)));
        }
    }

    /// Waits until it rings; without end if it is not set. Dropping the future has no effect.
    async fn rings(&mut self) {
        match &mut self.armed {
            None => std::future::pending().await,
            Some((_, sleep)) => {
                sleep.await;
                self.armed = None;
            }
        }
    }
}

/// How many bytes are read at once of input that is thrown away.
const DRAIN_BYTES: usize = 4 * 1024;

/// How many such reads there are at most: as much as a socket holds for a reader by default.
const DRAINS_MAX: usize = 64;

/// A byte stream to a server, and the bytes on their way to it.
///
/// If it is dropped while it is in use, a runtime is ending and drops the driver's future with it. No task goes on
/// then, so this is the last moment at which the service can be told that all locks of the session are free.
struct Connection {
    link: Arc<SessionLink>,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    /// Bytes of the session that the stream has not taken yet.
    output: Bytes,
}

impl Connection {
    fn new(link: Arc<SessionLink>, stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { link, reader, writer, output: Bytes::new() }
    }

    /// Writes as much of this as the stream takes without waiting; returns whether it took all.
    fn push(&mut self, context: &mut Context<'_>, mut bytes: Bytes) -> bool {
        while bytes.has_remaining() {
            match Pin::new(&mut self.writer).poll_write(context, &bytes) {
                Poll::Ready(Ok(count)) if count > 0 => bytes.advance(count),
                Poll::Ready(_) | Poll::Pending => return false,
            }
        }
        true
    }

    /// Takes the bytes that have arrived: a socket that is closed over unread bytes discards its unsent ones.
    fn drain(&mut self, context: &mut Context<'_>) {
        let mut bytes = [0; DRAIN_BYTES];
        for _ in 0..DRAINS_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.reader).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) | Poll::Pending => return,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.link.is_attached() {
            return;
        }
        let farewell = self.link.farewell();
        let begun = std::mem::take(&mut self.output);
        // No task is woken: what the stream does not take at once is left to the session's timeout.
        let mut context = Context::from_waker(Waker::noop());
        if self.push(&mut context, begun) && self.push(&mut context, farewell) {
            let _ = Pin::new(&mut self.writer).poll_flush(&mut context);
            self.drain(&mut context);
        }
    }
}
