//! Random requests for a lock of any kind, in one of several ways, and what they are granted.

use std::time::Duration;

use lockkeeper_core::{FencingToken, Result};
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

/// How long a request waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Endless,
    None,
    Within(Duration),
    /// Without end, but dropped after this many polls.
    Polls(usize),
}

impl Patience {
    pub(crate) fn choose(random: &mut Random) -> Self {
        let timeout = Duration::from_micros(random.below(20_000));
        match random.below(8) {
            0..=3 => Self::Endless,
            4 => Self::None,
            5 => Self::Within(timeout),
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
pub(crate) async fn ask(keeper: &Keeper, kind: Kind, asks: Asks, patience: Patience) -> Option<Result<Option<Held>>> {
    match patience {
        Patience::Endless => Some(wait(keeper, kind, asks).await.map(Some)),
        Patience::Polls(polls_max) => at_most(polls_max, wait(keeper, kind, asks)).await.map(|held| held.map(Some)),
        Patience::None => Some(try_once(keeper, kind, asks).await),
        Patience::Within(timeout) => Some(within(keeper, kind, asks, timeout).await),
    }
}

async fn wait(keeper: &Keeper, kind: Kind, asks: Asks) -> Result<Held> {
    Ok(match (kind, asks) {
        (_, Asks::Permits(permits)) => Held::Permits(keeper.semaphore(LOCK, PERMITS)?.acquire_many(permits).await?),
        (_, Asks::Share) => Held::Read(keeper.rw_lock(LOCK)?.read().await?),
        (Kind::ReadWrite, Asks::Alone) => Held::Write(keeper.rw_lock(LOCK)?.write().await?),
        (_, Asks::Alone) => Held::Mutex(keeper.mutex(LOCK)?.lock().await?),
    })
}

async fn try_once(keeper: &Keeper, kind: Kind, asks: Asks) -> Result<Option<Held>> {
    Ok(match (kind, asks) {
        (_, Asks::Permits(permits)) => {
            keeper.semaphore(LOCK, PERMITS)?.try_acquire_many(permits).await?.map(Held::Permits)
        }
        (_, Asks::Share) => keeper.rw_lock(LOCK)?.try_read().await?.map(Held::Read),
        (Kind::ReadWrite, Asks::Alone) => keeper.rw_lock(LOCK)?.try_write().await?.map(Held::Write),
        (_, Asks::Alone) => keeper.mutex(LOCK)?.try_lock().await?.map(Held::Mutex),
    })
}

async fn within(keeper: &Keeper, kind: Kind, asks: Asks, timeout: Duration) -> Result<Option<Held>> {
    Ok(match (kind, asks) {
        (_, Asks::Permits(permits)) => {
            keeper.semaphore(LOCK, PERMITS)?.acquire_many_timeout(permits, timeout).await?.map(Held::Permits)
        }
        (_, Asks::Share) => keeper.rw_lock(LOCK)?.read_timeout(timeout).await?.map(Held::Read),
        (Kind::ReadWrite, Asks::Alone) => keeper.rw_lock(LOCK)?.write_timeout(timeout).await?.map(Held::Write),
        (_, Asks::Alone) => keeper.mutex(LOCK)?.lock_timeout(timeout).await?.map(Held::Mutex),
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
