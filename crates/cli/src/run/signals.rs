//! Signals for the command, and receiving them.
//!
//! Those that the caller ignores are not received, and that is so for SIGTERM, too: a command that ignores it is killed
//! after the grace. SIGCONT alone is always received: the terminal is lent again by it, and a process is continued
//! whether it ignores it or not.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::signals::catch;

/// Passed on to the command as they come.
const PASSED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP];

/// Those that end a command unless it handles them; the watchdog confirms that it has passed them on.
pub(super) const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// The signals that this process receives from now on instead of being ended or stopped by them.
pub(super) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        // Taking the terminal back from the background, or a line of ours there, must not stop us.
        let mut mask = SigSet::empty();
        mask.add(nix::sys::signal::Signal::SIGTTOU);
        mask.thread_block()?;

        let mut streams = vec![(Signal::CONT, unix::signal(SignalKind::from_raw(Signal::CONT.as_raw()))?)];
        for signal in PASSED_ON {
            streams.extend(catch(signal)?.map(|stream| (signal, stream)));
        }
        Ok(Self { streams })
    }

    /// Waits for the next one. Several of a kind may come as one, as with the kernel.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}
