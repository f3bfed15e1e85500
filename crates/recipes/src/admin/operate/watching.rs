//! Looking at a lock without taking part: at each change, or until it is vacant.
//!
//! A lock's queues are its line, or the permits and the waiters of a semaphore; onlookers need not know which.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{ContenderInfo, Extent, Freshness, Part, QueueName, QueueView, Result, Session, Wait};

use crate::admin::Admin;
use crate::contend::{Vacant, grant};
use crate::keeper::Keeper;
use crate::shared::Shared;

/// The parts of a lock that an onlooker watches.
const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

/// The changes of a lock; made by [`Admin::changes`].
pub struct Changes {
    shared: Arc<Shared>,
    lock: QueueName,
    seen: Option<SeenQueues>,
}

/// The views behind the last answer.
struct SeenQueues {
    session: Arc<dyn Session>,
    queues: [(QueueName, QueueView); PARTS.len()],
}

impl Admin<'_> {
    /// Watches a lock without taking part: [`Changes::next`] shows the holders and the waiters.
    pub fn changes(self, name: &str) -> Result<Changes> {
        Ok(Changes { shared: self.keeper.shared.clone(), lock: QueueName::new(name)?, seen: None })
    }
}

impl Keeper {
    /// Waits, without taking part, until this lock has no holder and no waiter, for as long as `wait` says; `None` if
    /// the time was up first. [`Wait::No`] only looks. A session is opened only to wait for a contender.
    ///
    /// What may pass is tried again under the keeper's retry policy. After `Some`, the queue was empty at some moment
    /// between the call and its answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](lockkeeper_core::ErrorKind::InvalidName) for a name that is not valid; permanent if
    /// the service refuses, or the keeper is closed; transient if the time was up, or the retry policy gave up, before
    /// the service answered.
    pub async fn until_vacant(&self, name: &str, wait: Wait) -> Result<Option<()>> {
        let lock = QueueName::new(name)?;
        grant(&self.shared, &lock, &mut Vacant { lock: &lock }, wait, None).await
    }
}

impl Changes {
    /// Shows the holders and the waiters, first contender first: at the first call and after an error at once, later
    /// when the lock looks otherwise than at the last answer.
    ///
    /// A change is a join or a departure. What is noted at a contender, such as a request to give up, is shown with the
    /// next change, but is not a change itself. Of several changes in a row only the last may be shown. Dropping the
    /// future loses nothing: the next call goes on from the last answer.
    ///
    /// # Errors
    ///
    /// Those of [`Keeper::contenders`]; and [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost), transient, if the
    /// session of this look was lost. The next call looks anew.
    ///
    /// # On connection loss
    ///
    /// Shows the lock after the reconnection, changed or not; or fails.
    pub async fn next(&mut self) -> Result<Vec<ContenderInfo>> {
        let changed = match &self.seen {
            Some(seen) => seen.changed().await,
            None => Ok(()),
        };
        let shown = match changed {
            Ok(()) => self.look().await,
            Err(error) => Err(error),
        };
        shown.map_err(|error| {
            self.seen = None;
            error.at(&self.lock)
        })
    }

    /// Looks now, and keeps the views from before the look: a change in between shows at the next call.
    async fn look(&mut self) -> Result<Vec<ContenderInfo>> {
        let session = self.shared.session().await?;
        let [line, permits, waiters] = PARTS.map(|part| self.lock.with_part(part));
        // All requests are sent before the first answer, since a call takes effect when it is made.
        let views = [&line, &permits, &waiters].map(|queue| session.view(queue, Freshness::Latest, Extent::Whole));
        let [first, second, third] = views;
        let (first, second, third) = (first.await?, second.await?, third.await?);
        let shown = self.shared.admin()?.inspect(&self.lock).await?;
        let queues = [(line, first), (permits, second), (waiters, third)];
        self.seen = Some(SeenQueues { session, queues });
        Ok(shown)
    }
}

impl SeenQueues {
    /// Waits until one of the queues looks otherwise.
    async fn changed(&self) -> Result<()> {
        let [line, permits, waiters] = &self.queues;
        let changed = |(queue, view): &(QueueName, QueueView)| self.session.changed(queue, view);
        let (line, permits, waiters) = (changed(line), changed(permits), changed(waiters));
        let change = tokio::select! {
            change = line => change,
            change = permits => change,
            change = waiters => change,
        };
        change.map(drop)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Changes").field(&self.lock.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::tests::service;
    use lockkeeper_core::SafeUntil;

    fn modes(shown: &[ContenderInfo]) -> Vec<&str> {
        shown.iter().map(|contender| contender.mode.as_str()).collect()
    }

    async fn is_quiet(changes: &mut Changes) -> bool {
        timeout(Duration::from_secs(60), changes.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_of_any_kind_is_shown_at_once_and_then_at_each_change() {
        let keeper = service().keeper();
        let mut changes = keeper.admin().changes("door").unwrap();
        assert_eq!(modes(&changes.next().await.unwrap()), [""; 0]);
        assert!(is_quiet(&mut changes).await);

        let guard = keeper.mutex("door").unwrap().lock().await.unwrap();
        assert_eq!(modes(&changes.next().await.unwrap()), ["mutex"]);
        guard.release().await.unwrap();
        assert_eq!(modes(&changes.next().await.unwrap()), [""; 0]);

        let permits = keeper.semaphore("door", 2).unwrap().acquire_many(2).await.unwrap();
        assert_eq!(modes(&changes.next().await.unwrap()), ["permit", "permit"]);
        let another = keeper.clone();
        let waiter = tokio::spawn(async move { another.semaphore("door", 2).unwrap().acquire().await });
        assert_eq!(modes(&changes.next().await.unwrap()), ["permit", "permit", "acquire"]);
        waiter.abort();
        assert_eq!(modes(&changes.next().await.unwrap()), ["permit", "permit"]);
        for permit in permits {
            permit.release().await.unwrap();
        }
        assert_eq!(modes(&changes.next().await.unwrap()), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_error_the_next_look_is_made_anew() {
        let keeper = service().keeper();
        let mut changes = keeper.admin().changes("door").unwrap();
        changes.next().await.unwrap();
        keeper.testing().unwrap().expire_session();
        assert!(changes.next().await.is_err());
        assert_eq!(modes(&changes.next().await.unwrap()), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_vacant_lock_goes_on_after_an_outage_and_says_what_is_wrong_when_its_time_is_up_before() {
        let keeper = service().keeper();
        let guard = keeper.mutex("door").unwrap().lock().await.unwrap();
        let vacant = tokio::spawn({
            let keeper = keeper.clone();
            async move { keeper.until_vacant("door", Wait::Forever).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
        let short = keeper.until_vacant("hall", Wait::AtMost(Duration::from_secs(5))).await.unwrap_err();
        assert!(short.is_transient(), "{short}");
        keeper.testing().unwrap().expire_session();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!vacant.is_finished());
        keeper.testing().unwrap().heal();
        drop(guard);
        assert!(vacant.await.unwrap().unwrap().is_some());
        assert!(keeper.until_vacant("door", Wait::No).await.unwrap().is_some());
        let _again = keeper.mutex("door").unwrap().lock().await.unwrap();
        assert!(keeper.until_vacant("door", Wait::No).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_semaphore_is_vacant_when_its_last_permit_is_given_back_and_there_is_no_waiter() {
        let keeper = service().keeper();
        let semaphore = keeper.semaphore("door", 1).unwrap();
        let permit = semaphore.acquire().await.unwrap();
        assert!(keeper.until_vacant("door", Wait::AtMost(Duration::from_secs(1))).await.unwrap().is_none());
        let waiter = tokio::spawn(async move { semaphore.acquire().await });
        let vacant = tokio::spawn({
            let keeper = keeper.clone();
            async move { keeper.until_vacant("door", Wait::Forever).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        permit.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!vacant.is_finished());
        next.release().await.unwrap();
        assert!(vacant.await.unwrap().unwrap().is_some());
    }
}
