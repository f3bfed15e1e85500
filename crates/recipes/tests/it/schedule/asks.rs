//! The asks of contenders, and what they are granted.

use std::pin::Pin;

use lockkeeper_core::{Mode, Part, Result};
use lockkeeper_recipes::{Hold, Keeper, MutexGuard, Permit, Permits, ReadGuard, WriteGuard};

pub(crate) const LOCK: &str = "door";

/// The counter that bounds a semaphore whose bound is not agreed on.
pub(crate) const COUNTER: &str = "how-many";

/// What one contender asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ask {
    Mutex,
    Read,
    Write,
    /// To share a lock that is held alone.
    Downgrade,
    /// The first number of permits, of the second number.
    Permits(u32, u32),
    /// This number of permits, of as many as the counter says.
    Counted(u32),
}

pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Held>>>>;

impl Ask {
    /// Starts to ask. [`Held::downgrade`] asks for a downgrade.
    pub(crate) fn of(self, keeper: &Keeper) -> Asking {
        match self {
            Self::Mutex => {
                let mutex = keeper.mutex(LOCK).unwrap();
                Box::pin(async move { mutex.lock().await.map(Held::Mutex) })
            }
            Self::Read => {
                let rw_lock = keeper.rw_lock(LOCK).unwrap();
                Box::pin(async move { rw_lock.read().await.map(Held::Read) })
            }
            Self::Write => {
                let rw_lock = keeper.rw_lock(LOCK).unwrap();
                Box::pin(async move { rw_lock.write().await.map(Held::Write) })
            }
            Self::Permits(wanted, bound) => acquire(keeper, wanted, bound.into()),
            Self::Counted(wanted) => acquire(keeper, wanted, Permits::Counter(COUNTER.to_owned())),
            Self::Downgrade => unreachable!("it is asked of a guard"),
        }
    }

    /// Returns the mode of the place in which it waits.
    pub(crate) const fn mode(self) -> Mode {
        match self {
            Self::Mutex => Mode::Mutex,
            Self::Read | Self::Downgrade => Mode::Read,
            Self::Write => Mode::Write,
            Self::Permits(..) | Self::Counted(_) => Mode::Acquire,
        }
    }

    /// Returns how many permits are asked for.
    pub(crate) const fn wanted(self) -> u32 {
        match self {
            Self::Permits(wanted, _) | Self::Counted(wanted) => wanted,
            _ => 0,
        }
    }

    pub(crate) fn part(self) -> Part {
        if self.mode() == Mode::Acquire { Part::Waiters } else { Part::Line }
    }
}

fn acquire(keeper: &Keeper, wanted: u32, permits: Permits) -> Asking {
    let semaphore = keeper.semaphore(LOCK, permits).unwrap();
    Box::pin(async move { semaphore.acquire_many(wanted).await.map(Held::Permits) })
}

/// What one contender was granted.
pub(crate) enum Held {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Vec<Permit>),
}

impl Held {
    pub(crate) fn downgrade(self) -> Asking {
        let Self::Write(write) = self else { unreachable!("only a writer downgrades") };
        Box::pin(async move { write.downgrade().await.map(Held::Read) })
    }

    /// Gives back one guard; returns the rest, if any.
    pub(crate) fn release_one(self) -> Option<Self> {
        match self {
            Self::Permits(mut permits) => {
                drop(permits.pop());
                (!permits.is_empty()).then_some(Self::Permits(permits))
            }
            _ => None,
        }
    }

    /// Returns the hold of each guard.
    pub(crate) fn holds(&self) -> Vec<&Hold> {
        match self {
            Self::Mutex(guard) => vec![guard.hold()],
            Self::Read(guard) => vec![guard.hold()],
            Self::Write(guard) => vec![guard.hold()],
            Self::Permits(permits) => permits.iter().map(Permit::hold).collect(),
        }
    }
}
