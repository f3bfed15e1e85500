//! The leader of an election, for onlookers.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{ContenderId, Extent, Freshness, QueueName, Result, Session, Wait};

use crate::contend::{GrantAttempt, WaitProgress, grant, onlooker_error};
use crate::lock::{Lock, granted};
use crate::shared::Shared;

/// Watches who leads; made by [`Election::changes`](crate::Election::changes).
///
/// It waits only for the leader to go, not for other candidates to come and go, and reads no candidate's data.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let election = keeper.election("scheduler")?;
/// let mut changes = election.changes();
/// assert_eq!(changes.next().await?, None);
/// let leadership = election.campaign().await?;
/// assert_eq!(changes.next().await?.as_ref(), Some(leadership.hold().contender()));
/// # Ok(())
/// # }
/// ```
pub struct LeaderChanges {
    lock: Lock,
    told: Option<Option<ContenderId>>,
}

impl LeaderChanges {
    pub(super) const fn new(lock: Lock) -> Self {
        Self { lock, told: None }
    }

    /// Returns the leader: at the first call the present one, later once it is another, or none. In a frozen election
    /// the contender that freezes it counts as the leader.
    ///
    /// [`Election::leader`](crate::Election::leader) tells more about the leader. Of several changes in a row only the
    /// last may be returned. Dropping the future loses nothing: the next call returns the change.
    ///
    /// # Errors
    ///
    /// Permanent ones; a failure that may pass is retried under the keeper's retry policy.
    ///
    /// # On connection loss
    ///
    /// Goes on waiting, under a new session if need be; a change made meanwhile is returned.
    #[doc(alias = "LeaderLatchListener")]
    pub async fn next(&mut self) -> Result<Option<ContenderId>> {
        let mut change = HeadChange { queue: &self.lock.queue, told: self.told.as_ref() };
        let head = grant(&self.lock.shared, &self.lock.queue, &mut change, Wait::Forever, None).await.map(granted)?;
        self.told = Some(head.clone());
        Ok(head)
    }
}

/// Waits until another contender, or none, is first in a queue.
struct HeadChange<'a> {
    queue: &'a QueueName,
    told: Option<&'a Option<ContenderId>>,
}

impl HeadChange<'_> {
    async fn session(&self, shared: &Shared) -> Result<Arc<dyn Session>> {
        shared.session().await.map_err(|error| onlooker_error(self.queue, error))
    }
}

impl GrantAttempt for HeadChange<'_> {
    type Granted = Option<ContenderId>;

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Option<ContenderId>> {
        let session = self.session(shared).await?;
        let mut view = session
            .view(self.queue, Freshness::Latest, Extent::Around(None))
            .await
            .map_err(|error| onlooker_error(self.queue, error))?;
        *progress = WaitProgress::Placed;
        loop {
            let head = view.contenders.first().map(|first| first.id.clone());
            let next = match &head {
                _ if self.told != Some(&head) => return Ok(head),
                None => session.changed(self.queue, &view).await,
                Some(leader) => match session.departure(self.queue, None, leader, view.connection).await {
                    Ok(_) => session.view(self.queue, Freshness::Latest, Extent::Around(None)).await,
                    Err(error) => Err(error),
                },
            };
            view = next.map_err(|error| onlooker_error(self.queue, error))?;
        }
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Option<ContenderId>>> {
        let view = self.session(shared).await?.view(self.queue, Freshness::Latest, Extent::Around(None)).await;
        let view = view.map_err(|error| onlooker_error(self.queue, error))?;
        Ok(Some(view.contenders.first().map(|first| first.id.clone())))
    }
}

impl fmt::Debug for LeaderChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LeaderChanges").field("election", &self.lock).field("told", &self.told).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::service;
    use lockkeeper_core::SafeUntil;

    #[tokio::test(start_paused = true)]
    async fn an_onlooker_that_was_cut_off_or_lost_its_session_is_told_of_the_change_afterwards_and_of_nothing_else() {
        let service = service();
        for expires in [false, true] {
            let (ann, eve) = (service.keeper(), service.keeper());
            let election = ann.election("e").unwrap();
            let first = election.campaign().await.unwrap();
            let mut changes = eve.election("e").unwrap().changes();
            changes.next().await.unwrap();
            let testing = eve.testing().unwrap();
            for changed in [false, true] {
                let cut = async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    testing.cut(SafeUntil::ProcessEnd);
                    if expires {
                        testing.expire_session();
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    if changed {
                        // A candidate that is gone again, and one that stays.
                        drop(election.campaign_within(Wait::AtMost(Duration::from_millis(1))).await);
                        ann.testing().unwrap().expire_session();
                    }
                    testing.heal();
                    tokio::time::sleep(Duration::from_secs(60)).await;
                };
                tokio::select! {
                    biased;
                    next = changes.next() => assert_eq!((next.unwrap(), changed), (None, true)),
                    () = cut => assert!(!changed),
                }
            }
            drop(first);
        }
    }
}
