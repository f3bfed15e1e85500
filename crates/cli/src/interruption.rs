//! Signals that end a wait: the queue is left at once instead of when the service notices.
//!
//! They are caught only while waiting. Once the lock is held, signals are the command's, and the supervisor of the
//! command listens.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use lockkeeper::QueueName;
use rustix::process::Signal;
use tokio::signal::unix;

use crate::exit::{Failure, by_signal};
use crate::signals::catch;

/// What ends a wait, with the names that people know.
const ENDING: [(Signal, &str); 3] = [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT"), (Signal::HUP, "SIGHUP")];

/// The signals that end a wait, caught from now on.
pub(crate) struct Interruption {
    streams: Vec<(unix::Signal, Cause)>,
}

/// A signal that ended a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cause {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
}

impl Cause {
    /// That it ended something about a lock.
    pub(crate) fn ended(self, lock: &QueueName, when: &str) -> Failure {
        let message = format!("{lock}: ended by {} {when}", self.name);
        Failure { code: by_signal(self.number), message }
    }
}

impl Interruption {
    /// Starts to listen. What is ignored, as under `nohup`, stays ignored.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::start().map_err(|error| Failure::ours(format!("cannot listen for signals: {error}")))
    }

    fn start() -> io::Result<Self> {
        let mut streams = Vec::with_capacity(ENDING.len());
        for (signal, name) in ENDING {
            streams.extend(catch(signal)?.map(|stream| (stream, Cause { number: signal.as_raw(), name })));
        }
        Ok(Self { streams })
    }

    /// Tells which of them has come so far, if one has.
    pub(crate) fn heard_already(&mut self) -> Option<Cause> {
        let mut context = Context::from_waker(Waker::noop());
        self.next(&mut context)
    }

    pub(crate) async fn heard(&mut self) -> Cause {
        poll_fn(|context| self.next(context).map_or(Poll::Pending, Poll::Ready)).await
    }

    fn next(&mut self, context: &mut Context<'_>) -> Option<Cause> {
        for (stream, cause) in &mut self.streams {
            if stream.poll_recv(context) == Poll::Ready(Some(())) {
                return Some(*cause);
            }
        }
        None
    }
}
