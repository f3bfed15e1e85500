//! The border between supervisor and command line: what it must know of a hold, and what it returns.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use clap::ValueEnum;
use lockkeeper::SafeUntil;

use super::StandBy;

/// What happens to the command when its lock is lost, as the options say it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnLoss {
    /// It is ended before another contender is granted the lock
    Stop,
    /// It goes on, and a line says so
    Warn,
}

/// A command to run under a hold.
pub(crate) struct Supervision {
    /// The watchdog that was made for this command; without one, one is made now.
    pub(crate) stand_by: Option<StandBy>,
    pub(crate) command: Vec<OsString>,
    /// Added to the inherited environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Keeps our place in the queue while it is open; the watchdog closes it when the command is dead.
    pub(crate) lifeline: Option<OwnedFd>,
    /// Tells until when the hold may be believed; asked again and again if it has a deadline.
    pub(crate) safe_until: Box<dyn Fn() -> SafeUntil + Send + Sync>,
    /// How long the command may take to end by itself once it was asked to.
    pub(crate) grace: Duration,
    pub(crate) on_loss: OnLoss,
}

/// The order to give the lock up, and so to end the command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StopOrder {
    /// Why, for a line to be read, without characters that a terminal obeys.
    pub(crate) why: String,
    /// Within which time the command must be dead, if that is shorter than its grace.
    pub(crate) within: Option<Duration>,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) enum CommandOutcome {
    Exited(i32),
    Signaled(i32),
    LockLost(String),
    NotFound(String),
    NotExecutable(String),
}
