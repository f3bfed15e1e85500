//! A deadlock: who waits for whom, how sure it is, and how it may end.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use lockkeeper::{Answers, ContenderId, ContenderInfo, FencingToken, QueueName};

use crate::world::{World, WorldPlace};

/// Contenders that wait for each other, so that none of them can go on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// How sure it is: as sure as the weakest link of all that were needed to find it.
    pub certainty: Certainty,
    /// One circle in it: each link leads to the next, the last one to the first.
    pub chain: Vec<ChainLink>,
    /// All contenders that block each other, also outside of the chain, each with the queue in which it stands.
    pub core: BTreeSet<(QueueName, ContenderId)>,
    /// How many others wait for them.
    pub behind: usize,
    /// The earliest time at which one of them gives up waiting, by its clock since 1970-01-01 UTC, if any does.
    pub ends_unix: Option<Duration>,
    /// How an operator ends it.
    pub way_out: WayOut,
}

impl Deadlock {
    /// Names the locks of its chain, each once, in the order of the chain.
    pub fn locks(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for link in &self.chain {
            if !names.contains(&link.lock.as_str()) {
                names.push(link.lock.as_str());
            }
        }
        names
    }
}

/// A wait, and what joins it with the next one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChainLink {
    /// The lock that is waited for.
    pub lock: QueueName,
    /// Who waits.
    pub waiter: ContenderInfo,
    /// How many others that block each other too stand between it and the one ahead, and are in no link.
    pub between: usize,
    /// What the one ahead does there.
    pub state: AheadRole,
    /// Who is ahead of the waiter.
    pub ahead: ContenderInfo,
    /// Why the one ahead does not go on before the next waiter does.
    pub joined: Dependence,
}

/// What the contender ahead of a waiter does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AheadRole {
    /// It holds the lock.
    Holds,
    /// It has one of this many permits, each of which would do, and none of which comes back.
    HasPermit(usize),
    /// It waits too.
    Waits,
}

/// Why a contender does not go on before a waiter does. The surest comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Dependence {
    /// It is that waiter.
    Itself,
    /// The waiter is nested in it, or in one that is.
    Within,
    /// They are of one owner key.
    OwnerKey,
    /// They are of one thread.
    Thread,
    /// They are of one task.
    Task,
    /// Both are nested in the same one; no more is known.
    Run,
    /// They are of one process; no more is known.
    Process,
    /// They are of one session; no more is known.
    Session,
}

/// How sure a deadlock is. The surest comes first.
///
/// Even what is nested can be left in the background, and a task can give its guard away: a deadlock is known, and not
/// proven.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Certainty {
    /// Each holds and waits by one owner: an owner key, a thread, or what is nested.
    SameOwner,
    /// Somewhere a task holds and waits.
    SameTask,
    /// Somewhere no more is known than that both are nested in the same contender.
    SameRun,
    /// Somewhere no more is known than the process, which may do several things at a time.
    SameProcess,
    /// Somewhere no more is known than the session.
    SameSession,
}

/// How an operator ends a deadlock. One holder's end is enough for the chain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WayOut {
    /// To ask the holders of this lock to give it up, of whom this one is part of the deadlock.
    Revoke {
        /// The lock.
        lock: QueueName,
        /// The holder.
        holder: Box<ContenderInfo>,
    },
    /// To take this lock away from this holder, whose client answers no request. It may go on for a moment.
    Break {
        /// The lock.
        lock: QueueName,
        /// The holder.
        holder: Box<ContenderInfo>,
        /// Its token.
        token: FencingToken,
    },
    /// To end the process of one of them: no holder answers, and none shows its token.
    EndProcess,
}

impl Certainty {
    /// Tells whether it is sure enough for an alarm.
    pub const fn is_known(self) -> bool {
        matches!(self, Self::SameOwner | Self::SameTask)
    }
}

impl From<Dependence> for Certainty {
    fn from(joined: Dependence) -> Self {
        match joined {
            Dependence::Itself | Dependence::Within | Dependence::OwnerKey | Dependence::Thread => Self::SameOwner,
            Dependence::Task => Self::SameTask,
            Dependence::Run => Self::SameRun,
            Dependence::Process => Self::SameProcess,
            Dependence::Session => Self::SameSession,
        }
    }
}

/// `same-owner`, `same-task`, `same-run`, `same-process`, `same-session`
impl fmt::Display for Certainty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SameOwner => "same-owner",
            Self::SameTask => "same-task",
            Self::SameRun => "same-run",
            Self::SameProcess => "same-process",
            Self::SameSession => "same-session",
        })
    }
}

/// Chooses a holder of the core: one that answers requests, and of these the one that came last.
pub(crate) fn way_out(world: &World<'_>, core: &BTreeSet<usize>) -> WayOut {
    let holds =
        |&&number: &&usize| matches!(world.contenders[number].place, WorldPlace::Holds | WorldPlace::HasPermit { .. });
    let mut holders: Vec<usize> = core.iter().filter(holds).copied().collect();
    holders.sort_by_key(|&number| {
        let info = world.contenders[number].info;
        (info.answers, Reverse(info.granted_unix.or(info.since_unix)))
    });
    let choices = holders.into_iter().map(|number| (world.lock(number).name.clone(), world.contenders[number].info));
    for (lock, info) in choices {
        let holder = Box::new(info.clone());
        match (info.answers, info.token) {
            (Answers::Yes | Answers::Unknown, _) => return WayOut::Revoke { lock, holder },
            (_, Some(token)) => return WayOut::Break { lock, holder, token },
            (_, None) => {}
        }
    }
    WayOut::EndProcess
}
