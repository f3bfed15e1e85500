//! The writing side of the present connection. What goes out is taken from the machine and written under one lock: by
//! the session's task, or by a caller that finds nothing under way, which saves it the time to wake that task.
//!
//! Reading, timers and all that a stream does not take at once are left to the session's task.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use lockkeeper_core::clock::BootInstant;
use tokio::io::{AsyncWrite, WriteHalf};

use crate::dial::Stream;
use crate::link::session::Link;

/// A stream that takes bytes, and those that it has not taken yet.
pub(crate) struct Port {
    writer: WriteHalf<Box<dyn Stream>>,
    /// What was taken from the machine and not yet by the stream.
    output: Bytes,
    /// Whether the stream may hold back some of what it took.
    is_unflushed: bool,
}

/// Requests that are being made, and leave together when this is dropped.
#[must_use = "the requests leave when it is dropped"]
pub(crate) struct Batch<'a>(&'a Link);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.batches.fetch_sub(1, Ordering::SeqCst);
        self.0.send_now();
    }
}

impl Port {
    const fn new(writer: WriteHalf<Box<dyn Stream>>) -> Self {
        Self { writer, output: Bytes::new(), is_unflushed: false }
    }

    /// Whether the stream has taken and sent all.
    const fn is_idle(&self) -> bool {
        self.output.is_empty() && !self.is_unflushed
    }

    /// Writes and flushes all that is ready: a stream that encrypts may hold back what it took.
    fn poll_send(&mut self, link: &Link, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_push(context))?;
            self.output = link.poll_transmit();
            if self.output.is_empty() {
                break;
            }
        }
        self.poll_flush(context)
    }

    /// Writes and flushes one batch of what is ready, if the stream takes it at once; answers whether it does.
    fn has_sent_once(&mut self, link: &Link) -> bool {
        // The session's task goes on with what the stream does not take, and then waits for it itself.
        let mut context = Context::from_waker(Waker::noop());
        self.output = link.poll_transmit();
        matches!(self.poll_push(&mut context), Poll::Ready(Ok(())))
            && matches!(self.poll_flush(&mut context), Poll::Ready(Ok(())))
    }

    /// Has the stream send what it may hold back.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_unflushed {
            ready!(Pin::new(&mut self.writer).poll_flush(context))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what was taken from the machine.
    fn poll_push(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.output.has_remaining() {
            let count = ready!(Pin::new(&mut self.writer).poll_write(context, &self.output))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.advance(count);
            self.is_unflushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what was begun and then these last bytes, as far as the stream takes them without waiting; returns
    /// whether it took all.
    pub(crate) fn push_last(&mut self, last: Bytes, context: &mut Context<'_>) -> bool {
        if !matches!(self.poll_push(context), Poll::Ready(Ok(()))) {
            return false;
        }
        self.output = last;
        matches!(self.poll_push(context), Poll::Ready(Ok(()))) && {
            let _ = Pin::new(&mut self.writer).poll_flush(context);
            true
        }
    }
}

impl Link {
    /// Has the requests that are made while this is kept leave together: in one segment, and from this thread if
    /// nothing else is under way.
    pub(crate) fn batch(&self) -> Batch<'_> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        Batch(self)
    }

    /// Has what was asked for sent by the session's task, unless a batch is being made, whose end sends it.
    pub(super) fn send_soon(&self) {
        // Read behind the request: a batch that ended before the request was made has taken itself off by now.
        if self.batches.load(Ordering::SeqCst) == 0 {
            self.wake.notify_one();
        }
    }

    /// Sends what was not sent yet, as the end of a batch does: for a caller that begins to wait.
    pub(crate) fn send_unsent(&self) {
        if self.state().machine.queued() > 0 {
            self.send_now();
        }
    }

    /// Sends what was asked for, from this thread if nothing is under way; otherwise the session's task sends it along
    /// with what else comes meanwhile.
    fn send_now(&self) {
        if !self.has_sent() {
            self.wake.notify_one();
        }
    }

    /// Sends what is ready from this thread; returns whether nothing is left for the session's task to do. What others
    /// ask for meanwhile is left to that task, so that no caller is kept writing for them.
    fn has_sent(&self) -> bool {
        if self.state().machine.in_flight() > 0 {
            return false;
        }
        let Ok(mut port) = self.port.try_lock() else {
            return false;
        };
        let Some(port) = port.as_mut().filter(|port| port.is_idle()) else {
            return false;
        };
        port.has_sent_once(self) && self.state().machine.queued() == 0 && !self.is_alarm_late()
    }

    /// Whether the timer of the session's task is set to a later time than is needed by now.
    fn is_alarm_late(&self) -> bool {
        let due = self.poll_timeout().map_or(u64::MAX, BootInstant::as_nanos);
        due < self.alarm_at_nanos.load(Ordering::SeqCst)
    }

    /// Notes when the timer of the session's task rings at the latest.
    pub(crate) fn note_alarm(&self, rings_at: Option<BootInstant>) {
        self.alarm_at_nanos.store(rings_at.map_or(u64::MAX, BootInstant::as_nanos), Ordering::SeqCst);
    }

    /// Has requests written to this stream from now on.
    pub(crate) fn attach(&self, writer: WriteHalf<Box<dyn Stream>>) {
        self.note_alarm(None);
        *self.port() = Some(Port::new(writer));
    }

    /// Returns the stream that requests were written to; nothing is written from now on.
    pub(crate) fn detach(&self) -> Option<Port> {
        self.port().take()
    }

    /// Sends all that is ready.
    pub(crate) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.port() {
            Some(port) => port.poll_send(self, context),
            None => Poll::Ready(Ok(())),
        }
    }

    /// No code panics while it is locked, so a panic elsewhere leaves it whole.
    fn port(&self) -> MutexGuard<'_, Option<Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
