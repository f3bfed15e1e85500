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

use crate::exit::{CommandFailure, by_signal};
use crate::signals::catch;

/// What ends a wait, with the names that people know.
const ENDING: [(Signal, &str); 3] = [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT"), (Signal::HUP, "SIGHUP")];

/// The signals that end a wait, caught from now on.
pub(crate) struct EndingSignals {
    streams: Vec<(unix::Signal, EndingSignal)>,
}

/// A signal that ended a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EndingSignal {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
}

impl EndingSignal {
    /// That it ended something about a lock.
    pub(crate) fn ended(self, lock: &QueueName, when: &str) -> CommandFailure {
        let message = format!("{lock}: ended by {} {when}", self.name);
        CommandFailure { code: by_signal(self.number), message }
    }
}

impl EndingSignals {
    /// Starts to listen. What is ignored, as under `nohup`, stays ignored.
    pub(crate) fn listen() -> Result<Self, CommandFailure> {
        Self::start().map_err(|error| CommandFailure::ours(format!("cannot listen for signals: {error}")))
    }

    fn start() -> io::Result<Self> {
        let mut streams = Vec::with_capacity(ENDING.len());
        for (signal, name) in ENDING {
            streams.extend(catch(signal)?.map(|stream| (stream, EndingSignal { number: signal.as_raw(), name })));
        }
        Ok(Self { streams })
    }

    /// Tells which of them has come so far, if one has.
    pub(crate) fn heard_already(&mut self) -> Option<EndingSignal> {
        let mut context = Context::from_waker(Waker::noop());
        self.next(&mut context)
    }

    pub(crate) async fn heard(&mut self) -> EndingSignal {
        poll_fn(|context| self.next(context).map_or(Poll::Pending, Poll::Ready)).await
    }

    fn next(&mut self, context: &mut Context<'_>) -> Option<EndingSignal> {
        for (stream, cause) in &mut self.streams {
            if stream.poll_recv(context) == Poll::Ready(Some(())) {
                return Some(*cause);
            }
        }
        None
    }
}
