//! Requests of the one lock that a case uses, in each way, and what was granted.

use std::time::Duration;

use lockkeeper_core::{FencingToken, LossReason, Result, Wait};
use lockkeeper_history::Asks;
use lockkeeper_recipes::{Entered, Hold, Keeper, Leadership, MutexGuard, Permit, ReadGuard, WriteGuard};

use crate::random::Random;
use crate::waiting::{at_most, soon};

/// The lock that all is asked of.
pub const LOCK: &str = "door";

/// What is asked of the lock `door`: as which kind, and for what of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Ask {
    /// The mutex.
    Mutex,
    /// A share of the read/write lock.
    Read,
    /// Its writing side.
    Write,
    /// The first number of permits, of the second number.
    Permits(u32, u32),
    /// To lead.
    Lead,
    /// To go into a double barrier of one member.
    Enter,
}

impl Ask {
    /// Asks; `None` if it was not granted in that time.
    ///
    /// # Errors
    ///
    /// Those of the lock.
    pub async fn within(self, keeper: &Keeper, wait: Wait) -> Result<Option<Held>> {
        Ok(match self {
            Self::Mutex => keeper.mutex(LOCK)?.lock_within(wait).await?.map(Held::Mutex),
            Self::Read => keeper.rw_lock(LOCK)?.read_within(wait).await?.map(Held::Read),
            Self::Write => keeper.rw_lock(LOCK)?.write_within(wait).await?.map(Held::Write),
            Self::Permits(wanted, of) => {
                keeper.semaphore(LOCK, of)?.acquire_many_within(wanted, wait).await?.map(Held::Permits)
            }
            Self::Lead => keeper.election(LOCK)?.campaign_within(wait).await?.map(Held::Lead),
            Self::Enter => keeper.double_barrier(LOCK, 1)?.enter_within(wait).await?.map(Held::Inside),
        })
    }

    /// Asks, and waits for the grant without end.
    pub(crate) async fn granted(self, keeper: Keeper) -> Result<Held> {
        let held = self.within(&keeper, Wait::Forever).await?;
        Ok(held.expect("a wait without end ends with a grant"))
    }

    /// Tells whether the two may not be held at the same time.
    pub(crate) fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => false,
            (Self::Permits(wanted, of), Self::Permits(others, _)) => wanted + others > of,
            _ => true,
        }
    }

    /// As it is written in a history.
    pub const fn recorded(self) -> Asks {
        match self {
            Self::Read => Asks::Share,
            Self::Permits(wanted, _) => Asks::Permits(wanted),
            Self::Mutex | Self::Write | Self::Lead | Self::Enter => Asks::Alone,
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

    /// Asks in this way; `None` if that was dropped.
    pub(crate) async fn ask(self, keeper: &Keeper, ask: Ask) -> Option<Result<Option<Held>>> {
        match self {
            Self::Over(wait) => Some(ask.within(keeper, wait).await),
            Self::Polls(polls_max) => at_most(polls_max, ask.within(keeper, Wait::Forever)).await,
        }
    }
}

/// What was granted; dropping it gives it back.
#[derive(Debug)]
#[non_exhaustive]
pub enum Held {
    /// The mutex.
    Mutex(MutexGuard),
    /// A share.
    Read(ReadGuard),
    /// The writing side.
    Write(WriteGuard),
    /// Permits.
    Permits(Vec<Permit>),
    /// The lead.
    Lead(Leadership),
    /// A place inside a double barrier.
    Inside(Entered),
}

impl Held {
    /// The hold of each guard.
    pub fn holds(&self) -> Vec<&Hold> {
        match self {
            Self::Mutex(guard) => vec![guard.hold()],
            Self::Read(guard) => vec![guard.hold()],
            Self::Write(guard) => vec![guard.hold()],
            Self::Permits(permits) => permits.iter().map(Permit::hold).collect(),
            Self::Lead(guard) => vec![guard.hold()],
            Self::Inside(entered) => vec![entered.hold()],
        }
    }

    /// Returns its token; for several permits the least.
    ///
    /// # Panics
    ///
    /// If there are no permits.
    pub fn token(&self) -> FencingToken {
        let tokens = self.holds().into_iter().map(Hold::fencing_token);
        tokens.min().expect("a caller that is granted something has a hold")
    }

    /// Tells whether all of it is held.
    pub fn is_held(&self) -> bool {
        self.holds().iter().all(|hold| hold.is_held())
    }

    /// Waits until each hold is lost, for the same reason.
    pub(crate) async fn lost(&self) -> LossReason {
        let mut lost = Vec::new();
        for hold in self.holds() {
            lost.push(soon("the loss", hold.lost()).await);
        }
        assert!(lost.iter().all(|reason| *reason == lost[0]), "{lost:?}");
        lost[0]
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// It had been lost, or the service could not be told.
    pub async fn release(self) -> Result<()> {
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
            Self::Lead(guard) => guard.release().await,
            Self::Inside(entered) => entered.leave().await,
        }
    }
}
