//! The actions of a schedule, and the menus that say which of them are tried.

use super::flaw::Flaw;
use super::server::{DatabaseKind, Loss};

/// The actions of a menu, and where it begins.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Menu {
    pub(super) kind: DatabaseKind,
    pub(super) timeouts_ms: &'static [u64],
    /// How fast each clock runs, in thousandths.
    pub(super) speeds: [u64; 3],
    /// What has happened before.
    pub(super) before: &'static [Action],
    pub(super) offers: &'static [Action],
    /// How often the server may fail.
    pub(super) failures_max: usize,
    /// Whether connections outlive a failure of the server: those of a pooler do.
    pub(super) is_pooled: bool,
    /// Whether the oldest data are from before the longest timeout was set.
    pub(super) is_raised: bool,
    /// The session that is back in time if data are put back that look complete: the promise is for such.
    pub(super) returns: Option<usize>,
    pub(super) endings: &'static [Ending],
    pub(super) flaw: Option<Flaw>,
    pub(super) depth: usize,
}

/// How a schedule ends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Ending {
    /// All go on, and have their turns.
    AllGoOn,
    /// The first session falls silent, and the others go on.
    FirstFallsSilent,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Action {
    Beat(usize),
    Join(usize),
    Leave(usize),
    Look(usize),
    Connect(usize),
    /// Only sent: it arrives, and is answered, later.
    SendBeat(usize),
    SendJoin(usize),
    SendLook(usize),
    /// The oldest message of a session reaches the server, which executes it.
    Arrive(usize),
    /// The oldest answer reaches a session.
    Hear(usize),
    /// A connection is lost. What did not arrive over it may still do so.
    Cut(usize),
    /// A process stands still, or goes on.
    Stop(usize),
    GoOn(usize),
    Crash(Loss),
    /// The server ends cleanly, and starts again.
    Restart,
    Promote(Loss),
    PutBack,
    SetClockBack,
    /// Another transaction stops that holds a session's rows, or ends.
    Hold(usize),
    LetGo,
    SecondPasses,
    /// Time passes until something is due or over.
    NextComes,
}
