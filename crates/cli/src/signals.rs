//! Catching signals: none that comes while a handler is installed is lost, and none that the caller ignores is caught.
//!
//! A signal that was ignored when we started stays ignored, here and in the command of a run: that is what `nohup` and
//! a shell's background jobs ask for.
//!
//! The registry of handlers under tokio swallows a signal that comes between its handler and its entry for it. So the
//! entries are made while the process has one thread and blocks these signals; until [`catch`] the handlers do what the
//! kernel would do.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::{fs, io};

use lockkeeper::QueueName;
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::Signal;
use signal_hook::flag::register_conditional_default;
use tokio::signal::unix::{self, SignalKind};

use lockkeeper_console::exit::{CommandFailure, by_signal};

/// Those that end a process that does not catch them. SIGTSTP is not among them: only the kernel knows when its default
/// is to do nothing.
const PREPARED: [Signal; 6] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// What [`prepare`] has found and made.
struct PreparedSignals {
    /// What the caller ignores.
    ignored: SignalBits,
    /// For each signal of [`PREPARED`], whether the kernel's default is still to be done.
    defaults: [Arc<AtomicBool>; PREPARED.len()],
}

fn prepared() -> &'static PreparedSignals {
    static PREPARED_ONCE: OnceLock<PreparedSignals> = OnceLock::new();
    PREPARED_ONCE.get_or_init(|| PreparedSignals {
        ignored: ignored(),
        defaults: std::array::from_fn(|_| Arc::new(AtomicBool::new(true))),
    })
}

/// Prepares this process for [`catch`], before it has a second thread.
pub(crate) fn prepare() -> io::Result<()> {
    let PreparedSignals { ignored, defaults } = prepared();
    let mut mask = SigSet::empty();
    for signal in PREPARED {
        mask.add(signal.as_raw().try_into()?);
    }
    let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let registered = PREPARED
        .iter()
        .zip(defaults)
        .filter(|(signal, _)| !ignored.contains(**signal))
        .try_for_each(|(signal, default)| register_conditional_default(signal.as_raw(), default.clone()).map(drop));
    before.thread_set_mask()?;
    registered
}

/// Catches a signal from now on; `None` if it is ignored, and stays so.
pub(crate) fn catch(signal: Signal) -> io::Result<Option<unix::Signal>> {
    let PreparedSignals { ignored, defaults } = prepared();
    if ignored.contains(signal) {
        return Ok(None);
    }
    let caught = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
    if let Some(position) = PREPARED.iter().position(|prepared| *prepared == signal) {
        defaults[position].store(false, Ordering::SeqCst);
    }
    Ok(Some(caught))
}

/// A set of signals as the kernel shows it: bit n − 1 stands for signal n.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct SignalBits(u64);

impl SignalBits {
    fn contains(self, signal: Signal) -> bool {
        self.0 & (1 << (signal.as_raw() - 1)) != 0
    }
}

/// Returns the signals that this process ignores; none if the kernel does not say.
fn ignored() -> SignalBits {
    let status = fs::read("/proc/self/status").unwrap_or_default();
    parse_ignored(&String::from_utf8_lossy(&status)).unwrap_or(SignalBits(0))
}

fn parse_ignored(status: &str) -> Option<SignalBits> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok().map(SignalBits)
}

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
