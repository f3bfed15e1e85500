//! Elections: one of many candidates leads, and the next one when it is gone.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `changes` | who leads, for onlookers |
//! | `campaign` | the task that campaigns again and again |
//! | `latch` | Curator's leader latch: to lead until closed |
//! | `selector` | Curator's leader selector: to run something while leading |

mod campaign;
mod changes;
mod latch;
mod selector;

#[cfg(test)]
mod tests;

use std::fmt;

use lockkeeper_core::{ContenderInfo, Mode, Modes, QueueName, Result, Wait};

use crate::keeper::Keeper;
use crate::lock::guard::{Guard, kind};
use crate::lock::{Lock, granted};

pub use campaign::{Requeue, WorkError};
pub use changes::LeaderChanges;
pub use latch::{CloseMode, LatchChanges, LatchEvent, LeaderLatch};
pub use selector::LeaderSelector;

/// Proof that this process leads. Dropping it resigns.
///
/// In the guide: [a leader with a job](https://docs.rs/lockkeeper/latest/lockkeeper/guide/recipes/index.html).
pub type Leadership = Guard<kind::Lead>;

impl Leadership {
    /// Resigns, and waits until that is certain: another name for [`Guard::release`].
    pub fn resign(self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release()
    }
}

/// An election: candidates stand in one queue, and the first of them leads.
///
/// The leader holds a token that is greater than that of every leader before. Made by [`Keeper::election`]; cheap to
/// clone. [`LeaderLatch`] and [`LeaderSelector`] campaign again and again
/// without further calls.
///
/// Errors, cancellation, order, timeouts and connection loss of campaigns are those of [`Mutex`](crate::Mutex), and of
/// looks at the election those of [`Keeper::contenders`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// use lockkeeper::Wait;
///
/// let election = keeper.election("scheduler")?;
/// let leadership = election.campaign().await?;
/// assert_eq!(election.leader().await?.map(|leader| leader.id).as_ref(), Some(leadership.hold().contender()));
/// assert!(election.campaign_within(Wait::No).await?.is_none());
/// leadership.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "LeaderElection")]
pub struct Election {
    pub(crate) lock: Lock,
    /// Whether latches and selectors resign when they are asked to give the lead up.
    pub(crate) is_resigning: bool,
}

impl Keeper {
    /// Returns the election of this name.
    #[doc(alias = "LeaderLatch")]
    #[doc(alias = "LeaderSelector")]
    pub fn election(&self, name: &str) -> Result<Election> {
        Ok(Election { lock: self.lock(name, Modes::ELECTION)?, is_resigning: false })
    }
}

impl Election {
    /// Returns the election's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Has the latches and selectors that are started of this handle resign when they are asked to give the lead up
    /// ([`Admin::revoke`](crate::Admin::revoke), `lockkeeper revoke`). A selector's work is then dropped at its next
    /// await, and a latch stands again at the tail. Without it they lead on: observers are told
    /// ([`Event::Revoked`](crate::Event::Revoked)), and so is work that waits for
    /// [`Hold::revoked`](crate::Hold::revoked). For [`Election::campaign`] it changes nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// use lockkeeper::election::LeaderLatch;
    /// use lockkeeper::{Revocation, Wait};
    ///
    /// let latch = LeaderLatch::start(&keeper.election("scheduler")?.resigning());
    /// let first = latch.until_leader().await?;
    /// keeper.admin().revoke("scheduler", Revocation::default(), Wait::Forever).await?;
    /// assert!(!first.is_held());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resigning(self) -> Self {
        Self { is_resigning: true, ..self }
    }

    /// Stands for election, and waits to lead, however long it takes.
    pub async fn campaign(&self) -> Result<Leadership> {
        self.campaign_within(Wait::Forever).await.map(granted)
    }

    /// Stands for election, and waits to lead, for as long as `wait` says; `None` if the time was up first. Without a
    /// wait it leads only if there is no other candidate.
    pub async fn campaign_within(&self, wait: Wait) -> Result<Option<Leadership>> {
        self.lock.grant(&self.lock.plan(Mode::Candidate, wait)).await
    }

    /// Shows the leader; `None` if there is no candidate, or the election is frozen.
    ///
    /// The answer may be out of date: do not decide by it what is safe while another process leads.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<ContenderInfo>> {
        let first = self.candidates().await?.into_iter().next();
        Ok(first.filter(|first| first.frozen.is_none()))
    }

    /// Shows the candidates, the leader first.
    #[doc(alias = "getParticipants")]
    pub async fn candidates(&self) -> Result<Vec<ContenderInfo>> {
        self.lock.shared.admin()?.inspect(self.name()).await.map_err(|error| error.at(self.name()))
    }

    /// Watches who leads, without taking part.
    pub fn changes(&self) -> LeaderChanges {
        LeaderChanges::new(self.lock.clone())
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Election").field(&self.lock).finish()
    }
}
