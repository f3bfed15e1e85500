//! Being told to stop while waiting: the queue is left at once instead of when the service notices.
//!
//! Heard only while waiting. Once the lock is held, signals are the command's, and the supervisor of the command listens.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What ends a wait, with the names that people know.
const ENDING: [(SignalKind, &str); 3] =
    [(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT"), (SignalKind::hangup(), "SIGHUP")];

/// The signals that end a wait, as heard from now on.
pub(crate) struct Interruption {
    streams: Vec<(Signal, Cause)>,
}

/// A signal that ended a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cause {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
}

impl Interruption {
    /// Starts to listen. What is ignored, as under `nohup`, stays ignored.
    ///
    /// # Errors
    ///
    /// The runtime cannot install a handler.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let mut streams = Vec::with_capacity(ENDING.len());
        for (kind, name) in ENDING {
            let number = kind.as_raw_value();
            if ignored & (1 << (number - 1)) == 0 {
                streams.push((signal(kind)?, Cause { number, name }));
            }
        }
        Ok(Self { streams })
    }

    /// Waits for the first of them.
    pub(crate) async fn heard(&mut self) -> Cause {
        poll_fn(|context| {
            for (stream, cause) in &mut self.streams {
                if stream.poll_recv(context) == Poll::Ready(Some(())) {
                    return Poll::Ready(*cause);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Reads the kernel's mask of ignored signals: bit n − 1 stands for signal n. None if the kernel does not say.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_mask_is_read() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\tff\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }

    #[tokio::test]
    async fn a_signal_that_ends_a_wait_is_heard_with_its_number() {
        let mut interruption = Interruption::listen().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        assert_eq!(interruption.heard().await, Cause { number: 15, name: "SIGTERM" });
    }
}
