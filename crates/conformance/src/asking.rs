//! Random requests for a lock of any kind, in one of several ways, and what they are granted.

use std::time::Duration;

use lockkeeper_core::{FencingToken, Result, Wait};
use lockkeeper_recipes::{Keeper, MutexGuard, Permit, ReadGuard, WriteGuard};

use crate::history::Asks;
use crate::polls::at_most;
use crate::random::Random;

/// The one lock that all requests are for.
const LOCK: &str = "door";

/// How many permits it has, if it is a semaphore.
pub(crate) const PERMITS: u32 = 3;

/// What kind of lock it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Mutex,
    ReadWrite,
    Semaphore,
}

impl Kind {
    /// Chooses what to ask for.
    pub(crate) fn choose(self, random: &mut Random) -> Asks {
        match self {
            Self::Mutex => Asks::Alone,
            Self::ReadWrite if random.below(3) == 0 => Asks::Alone,
            Self::ReadWrite => Asks::Share,
            Self::Semaphore => Asks::Permits(1 + random.below(u64::from(PERMITS)) as u32),
        }
    }
}

/// How a request ends without a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// When this wait is over.
    Over(Wait),
    /// It waits without end, but is dropped after this many polls.
    Polls(usize),
}

impl Until {
    pub(crate) fn choose(random: &mut Random) -> Self {
        let timeout = Duration::from_micros(random.below(20_000));
        match random.below(8) {
            0..=3 => Self::Over(Wait::Forever),
            4 => Self::Over(Wait::No),
            5 => Self::Over(Wait::AtMost(timeout)),
            _ => Self::Polls(random.below(6) as usize),
        }
    }
}

/// What was granted.
#[derive(Debug)]
pub(crate) enum Held {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Vec<Permit>),
}

/// Asks for a lock of this kind; `None` if that was dropped.
pub(crate) async fn ask(keeper: &Keeper, kind: Kind, asks: Asks, until: Until) -> Option<Result<Option<Held>>> {
    match until {
        Until::Over(wait) => Some(ask_within(keeper, kind, asks, wait).await),
        Until::Polls(polls_max) => at_most(polls_max, ask_within(keeper, kind, asks, Wait::Forever)).await,
    }
}

async fn ask_within(keeper: &Keeper, kind: Kind, asks: Asks, wait: Wait) -> Result<Option<Held>> {
    Ok(match (kind, asks) {
        (_, Asks::Permits(permits)) => {
            keeper.semaphore(LOCK, PERMITS)?.acquire_many_within(permits, wait).await?.map(Held::Permits)
        }
        (_, Asks::Share) => keeper.rw_lock(LOCK)?.read_within(wait).await?.map(Held::Read),
        (Kind::ReadWrite, Asks::Alone) => keeper.rw_lock(LOCK)?.write_within(wait).await?.map(Held::Write),
        (_, Asks::Alone) => keeper.mutex(LOCK)?.lock_within(wait).await?.map(Held::Mutex),
    })
}

impl Held {
    /// Returns its token; for several permits the least.
    pub(crate) fn token(&self) -> FencingToken {
        match self {
            Self::Mutex(guard) => guard.fencing_token(),
            Self::Read(guard) => guard.fencing_token(),
            Self::Write(guard) => guard.fencing_token(),
            Self::Permits(permits) => {
                permits.iter().map(Permit::fencing_token).min().expect("a caller that is granted permits has one")
            }
        }
    }

    /// Tells whether all of it is held.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Mutex(guard) => guard.hold().is_held(),
            Self::Read(guard) => guard.hold().is_held(),
            Self::Write(guard) => guard.hold().is_held(),
            Self::Permits(permits) => permits.iter().all(|permit| permit.hold().is_held()),
        }
    }

    /// Gives it back; an error says that this failed or that it had been lost.
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permits(permits) => {
                let mut outcome = Ok(());
                for permit in permits {
                    outcome = outcome.and(permit.release().await);
                }
                outcome
            }
        }
    }
}
