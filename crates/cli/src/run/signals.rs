//! Signals for the command, and receiving them.
//!
//! A signal that was ignored when we started stays ignored, here and in the command: that is what `nohup` and a shell's
//! background jobs ask for.
//!
//! That is so for SIGTERM, too: a command that ignores it is killed after the grace. SIGCONT alone is always received:
//! the terminal is lent again by it, and a process is continued whether it ignores it or not.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::processes;

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

        let ignored = ignored();
        let listen = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        let mut streams = vec![(Signal::CONT, listen(Signal::CONT)?)];
        for signal in PASSED_ON {
            if !ignored.contains(signal) {
                streams.push((signal, listen(signal)?));
            }
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

/// A set of signals as the kernel shows it: bit n − 1 stands for signal n.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SignalBits(u64);

impl SignalBits {
    pub(crate) fn contains(self, signal: Signal) -> bool {
        self.contains_number(signal.as_raw())
    }

    pub(crate) fn contains_number(self, number: i32) -> bool {
        self.0 & (1 << (number - 1)) != 0
    }
}

/// Returns the signals that this process ignores; none if the kernel does not say.
pub(crate) fn ignored() -> SignalBits {
    let status = processes::read("/proc/self/status").unwrap_or_default();
    parse_ignored(&String::from_utf8_lossy(&status)).unwrap_or(SignalBits(0))
}

fn parse_ignored(status: &str) -> Option<SignalBits> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok().map(SignalBits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let ignored = parse_ignored("Name:\tx\nSigBlk:\tffff\nSigIgn:\t0000000000001001\nSigCgt:\t4000\n").unwrap();
        assert!(ignored.contains(Signal::HUP));
        assert!(ignored.contains(Signal::PIPE));
        assert!(!ignored.contains(Signal::INT));
        assert_eq!(parse_ignored("Name:\tx\n"), None);
    }
}
