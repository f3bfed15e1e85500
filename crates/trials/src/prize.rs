//! The prize of a round: a mutex, or the lead of an election.

use lockkeeper_core::{FencingToken, Result};
use lockkeeper_recipes::{Hold, Keeper, Leadership, MutexGuard};

/// What the name of an election ends with here: the other process knows a lock by its name alone.
pub(crate) const ELECTION: &str = "-lead";

/// What was won.
#[derive(Debug)]
pub(crate) enum Prize {
    /// A mutex.
    Mutex(MutexGuard),
    /// The lead of an election.
    Lead(Leadership),
}

impl Prize {
    /// Waits for it.
    pub(crate) async fn win(keeper: Keeper, lock: String) -> Result<Self> {
        match lock.ends_with(ELECTION) {
            true => keeper.election(&lock)?.campaign().await.map(Self::Lead),
            false => keeper.mutex(&lock)?.lock().await.map(Self::Mutex),
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        match self {
            Self::Mutex(guard) => guard.hold(),
            Self::Lead(lead) => lead.hold(),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.hold().fencing_token()
    }

    /// Gives it back.
    pub(crate) async fn give_back(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Lead(lead) => lead.resign().await,
        }
    }
}
