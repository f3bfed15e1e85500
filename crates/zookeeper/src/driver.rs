//! The one task with the socket: dials, moves bytes between the socket and the session machine, and keeps its timers.
//!
//! It knows no lock and no request. It ends when the session is over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lockkeeper_core::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::task::JoinSet;

use crate::alarm::Alarm;
use crate::config::Server;
use crate::dial::{Dial, Failure, Stream};
use crate::hosts::Hosts;
use crate::link::Link;

/// How many bytes one read takes at most: some hundred replies.
const READ_BYTES_MAX: usize = 64 * 1024;

/// How long a connection must have lasted to count as of use, so that a server which hangs up on everybody is not dialled
/// in a busy loop.
const STEADY: Duration = Duration::from_secs(1);

/// Moves the bytes of one session for as long as it lives.
pub(crate) struct Driver {
    link: Arc<Link>,
    dial: Arc<dyn Dial>,
    hosts: Hosts,
    clock: Arc<dyn Clock>,
    /// How long one server may take to accept a connection.
    dial_time_max: Duration,
    alarm: Alarm,
    chores: JoinSet<()>,
}

/// Tells everybody when the driver is gone, also when its runtime was shut down.
struct Ending(Arc<Link>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Driver {
    pub(crate) fn new(link: Arc<Link>, dial: Arc<dyn Dial>, hosts: Hosts, dial_time_max: Duration) -> Self {
        let clock = link.clock().clone();
        Self { link, dial, hosts, dial_time_max, alarm: Alarm::new(clock.clone()), clock, chores: JoinSet::new() }
    }

    /// Runs until the session is over.
    pub(crate) async fn run(mut self) {
        let _ending = Ending(self.link.clone());
        while !self.link.is_over() {
            let (pause, server) = self.hosts.next();
            let Some(dialled) = self.dial(pause, &server).await else {
                break;
            };
            match dialled {
                Ok(stream) => {
                    let begun = self.clock.now();
                    self.serve(stream, &server).await;
                    if self.clock.now().saturating_duration_since(begun) >= STEADY {
                        self.hosts.succeeded();
                    }
                }
                Err(error) => self.link.note_failure(&server, error.into()),
            }
        }
        // What goes on by itself hears that the session is over, and says so to whoever asked for it.
        self.run_chores();
        self.link.end();
        while self.chores.join_next().await.is_some() {}
    }

    /// Dials one server, while time goes on for requests that wait; `None` if the session is over meanwhile.
    async fn dial(&mut self, pause: Duration, server: &Server) -> Option<io::Result<Box<dyn Stream>>> {
        let (clock, dial, limit) = (self.clock.clone(), self.dial.clone(), self.dial_time_max);
        let dialling = async move {
            if !pause.is_zero() {
                clock.sleep_until(clock.now().saturating_add(pause)).await;
            }
            tokio::select! {
                biased;
                dialled = dial.dial(server) => dialled,
                () = clock.sleep_until(clock.now().saturating_add(limit)) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}")))
                }
            }
        };
        tokio::pin!(dialling);
        loop {
            self.run_chores();
            self.alarm.set(self.link.poll_timeout());
            tokio::select! {
                biased;
                dialled = &mut dialling => return Some(dialled),
                () = self.link.woken() => {}
                () = self.alarm.rings() => self.link.handle_timeout(),
            }
            if self.link.is_over() {
                return None;
            }
        }
    }

    /// Serves one connection until it is of no more use.
    ///
    /// Bytes that have arrived are taken before the timer is looked at, so that a process that was stopped does not give
    /// up a good connection.
    async fn serve(&mut self, stream: Box<dyn Stream>, server: &Server) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut input = BytesMut::with_capacity(READ_BYTES_MAX);
        let mut output = Bytes::new();
        let mut is_flushed = true;
        let mut broken = None;
        self.link.handle_connected();
        while self.link.is_attached() {
            self.run_chores();
            if is_flushed {
                output = self.link.poll_transmit();
                is_flushed = output.is_empty();
            }
            self.alarm.set(self.link.poll_timeout());
            tokio::select! {
                biased;
                read = reader.read_buf(&mut input) => match read {
                    Ok(count) if count > 0 => {
                        self.link.handle_bytes(&input);
                        input.clear();
                    }
                    Ok(_) => self.link.handle_disconnected(),
                    Err(error) => {
                        broken = Some(error);
                        self.link.handle_disconnected();
                    }
                },
                written = write(&mut writer, &mut output), if !is_flushed => match written {
                    Ok(()) => is_flushed = true,
                    Err(_) => self.link.handle_disconnected(),
                },
                () = self.link.woken() => {}
                () = self.alarm.rings() => self.link.handle_timeout(),
            }
        }
        let trouble = self.link.take_trouble().map(|why| Failure { why, is_lasting: false });
        // What the stream says of itself is more than that it broke, unless it says that it just ended.
        let broken = broken.filter(|error| error.kind() != io::ErrorKind::UnexpectedEof).map(Failure::from);
        if let Some(failure) = broken.or(trouble) {
            self.link.note_failure(server, failure);
        }
    }

    /// Starts what was asked to go on by itself, and forgets what is done.
    fn run_chores(&mut self) {
        for chore in self.link.take_chores() {
            self.chores.spawn(chore);
        }
        while self.chores.try_join_next().is_some() {}
    }
}

/// Writes all of `output` and sees it off: a stream that encrypts may hold back what it took. Dropped halfway, it leaves in
/// `output` what was not taken, and can be begun anew.
async fn write(writer: &mut WriteHalf<Box<dyn Stream>>, output: &mut Bytes) -> io::Result<()> {
    writer.write_all_buf(output).await?;
    writer.flush().await
}
