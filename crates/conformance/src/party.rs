//! Those who take part in a case: clients with a keeper each, and waiting for what must come.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Event, Keeper, Mutex, MutexGuard, Result};
use tokio::task::JoinHandle;

use crate::fixture::{Client, Fault, Fixture};
use crate::journal::Journal;
use crate::tap::{Pace, Tap};

/// How long a case waits for what must come soon: far longer than any hand-off, also on a busy machine, and longer than the
/// session timeouts that services are tested with.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How often a case looks at what tells nobody of its changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A contender's task.
pub(crate) type Waiting = JoinHandle<Result<MutexGuard>>;

/// One client, the keeper over it, and what the keeper's observer heard.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub(crate) client: Arc<dyn Client>,
    pub(crate) keeper: Keeper,
    pub(crate) journal: Arc<Journal>,
    pub(crate) tap: Tap,
}

impl Party {
    /// Opens a client and a keeper over it.
    pub(crate) async fn enter(fixture: &dyn Fixture) -> Self {
        Self::enter_at(fixture, Pace::Prompt).await
    }

    /// Opens a client and a keeper whose every request is answered at this pace.
    pub(crate) async fn enter_at(fixture: &dyn Fixture, pace: Pace) -> Self {
        let client = fixture.client().await.expect("the fixture opens a client");
        let tap = Tap::new(client.backend(), pace);
        let journal = Arc::new(Journal::default());
        let keeper = Keeper::builder(Arc::new(tap.clone())).clock(fixture.clock()).observer(journal.clone()).build();
        Self { client, keeper, journal, tap }
    }

    pub(crate) fn mutex(&self, lock: &str) -> Mutex {
        self.keeper.mutex(lock).expect("the name is one")
    }

    /// Takes a lock that must be had soon.
    pub(crate) async fn lock(&self, lock: &str) -> MutexGuard {
        let mutex = self.mutex(lock);
        soon("the grant", mutex.lock()).await.expect("the lock is granted")
    }

    /// Tries a lock.
    pub(crate) async fn try_lock(&self, lock: &str) -> Option<MutexGuard> {
        let mutex = self.mutex(lock);
        soon("the answer of try_lock", mutex.try_lock()).await.expect("try_lock does not fail")
    }

    /// Starts a task that locks, and returns once its contender stands in the queue.
    pub(crate) async fn queue_up(&self, lock: &str) -> Waiting {
        let joined = self.journal.count(is_joined);
        let mutex = self.mutex(lock);
        let task = tokio::spawn(async move { mutex.lock().await });
        self.journal.until_count("a join", joined + 1, is_joined).await;
        task
    }

    pub(crate) async fn inflict(&self, fault: Fault) {
        self.client.inflict(fault).await.expect("the harm is done");
    }

    /// Waits until this many contenders stand in the queue.
    pub(crate) async fn until_contenders(&self, lock: &str, count: usize) {
        let mut seen = usize::MAX;
        let look = async {
            while seen != count {
                if seen != usize::MAX {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                }
                seen = self.contenders(lock).await;
            }
        };
        let arrived = tokio::time::timeout(SOON, look).await;
        assert!(arrived.is_ok(), "{seen} contenders instead of {count} after {SOON:?}");
    }

    pub(crate) async fn contenders(&self, lock: &str) -> usize {
        let contenders = self.keeper.contenders(lock).await;
        contenders.expect("the queue can be looked at").len()
    }
}

pub(crate) fn is_joined(event: &Event) -> bool {
    matches!(event, Event::Joined { .. })
}

/// Waits for what must come soon.
pub(crate) async fn soon<Output>(what: &str, future: impl Future<Output = Output>) -> Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come within {SOON:?}"),
    }
}

/// Waits for the grant of a contender's task.
pub(crate) async fn granted(waiting: Waiting) -> MutexGuard {
    let outcome = soon("the grant", waiting).await.expect("the task does not panic");
    outcome.expect("the lock is granted")
}

/// Gives a lock back and waits until that is certain.
pub(crate) async fn release(guard: MutexGuard) {
    soon("the release", guard.release()).await.expect("the lock was still held");
}
