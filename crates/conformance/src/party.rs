//! The parties of a test: independent clients with a keeper each, and what their observers heard.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Backend, ContenderInfo, Part, Result, Wait};
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{
    Guard, Keeper, KeeperBuilder, LockKind, Mutex, MutexGuard, Permits, ReadGuard, RwLock, Semaphore, WriteGuard,
};
use tokio::task::{JoinHandle, JoinSet};

use crate::ask::{Ask, Held, LOCK};
use crate::fixture::{Client, Fault, Fixture};
use crate::journal::{Journal, is_joined};
use crate::speaker::part_of;
use crate::tap::{Pace, Tap};
use crate::waiting::{SOON, soon, until};

/// How long a caller waits that must not be granted anything.
pub(crate) const IN_VAIN: Duration = Duration::from_millis(200);

/// Longer than any wait lasts that ends with a grant.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// How often a queue is looked at until it has the expected length: some cases do it hundreds of times.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// For how long a caller waits in vain at first that must have joined before its time is up: joins take a fraction of
/// it, unless the machine is busy.
const GIVES_UP_AFTER: Duration = Duration::from_millis(500);

/// A contender's task.
pub type Waiting<Granted = MutexGuard> = JoinHandle<Result<Granted>>;

/// A keeper over a client that no other party shares, what its observer heard, and what it asked of its backend.
#[derive(Clone, Debug)]
pub struct Party {
    /// The keeper.
    pub keeper: Keeper,
    /// What its observer heard.
    pub journal: Arc<Journal>,
    /// What it asked of its backend.
    pub tap: Tap,
    /// The client to which harm can be done; none if no fixture opened it.
    client: Option<Arc<dyn Client>>,
}

impl Party {
    /// Makes a keeper over a backend, which tries again by this policy.
    pub fn over(backend: Arc<dyn Backend>, retry: RetryPolicy) -> Self {
        Self::with(None, backend, Pace::Prompt, |builder| builder.retry(retry))
    }

    /// Opens a client and a keeper over it.
    pub async fn enter(fixture: &dyn Fixture) -> Self {
        Self::enter_at(fixture, Pace::Prompt).await
    }

    /// Opens a client and a keeper whose every request is answered at this pace.
    pub(crate) async fn enter_at(fixture: &dyn Fixture, pace: Pace) -> Self {
        let client = fixture.client().await.expect("the fixture opens a client");
        let backend = client.backend();
        Self::with(Some(client), backend, pace, |builder| builder.clock(fixture.clock()).handoff(fixture.handoff()))
    }

    fn with(
        client: Option<Arc<dyn Client>>,
        backend: Arc<dyn Backend>,
        pace: Pace,
        configure: impl FnOnce(KeeperBuilder) -> KeeperBuilder,
    ) -> Self {
        let tap = Tap::new(backend, pace);
        let journal = Arc::new(Journal::default());
        let keeper = configure(Keeper::builder(Arc::new(tap.clone()))).observer(journal.clone()).build();
        Self { keeper, journal, tap, client }
    }

    pub(crate) fn mutex(&self, lock: &str) -> Mutex {
        self.keeper.mutex(lock).expect("the name is valid")
    }

    pub(crate) fn rw_lock(&self, lock: &str) -> RwLock {
        self.keeper.rw_lock(lock).expect("the name is valid")
    }

    pub(crate) fn semaphore(&self, lock: &str, permits: impl Into<Permits>) -> Semaphore {
        self.keeper.semaphore(lock, permits).expect("the name is valid, and there are permits")
    }

    /// Takes a lock that must be granted soon.
    pub async fn lock(&self, lock: &str) -> MutexGuard {
        let mutex = self.mutex(lock);
        soon("the grant", mutex.lock()).await.expect("the lock is granted")
    }

    /// Tries a lock.
    pub(crate) async fn try_lock(&self, lock: &str) -> Option<MutexGuard> {
        let mutex = self.mutex(lock);
        soon("the answer of try_lock", mutex.try_lock()).await.expect("try_lock does not fail")
    }

    /// Takes a share that must be granted soon.
    pub(crate) async fn read(&self, lock: &str) -> ReadGuard {
        let rw_lock = self.rw_lock(lock);
        soon("the grant", rw_lock.read()).await.expect("the share is granted")
    }

    /// Takes the write side of a read/write lock, which must be granted soon.
    pub(crate) async fn write(&self, lock: &str) -> WriteGuard {
        let rw_lock = self.rw_lock(lock);
        soon("the grant", rw_lock.write()).await.expect("the lock is granted")
    }

    /// Starts a task that locks, and returns once its contender is in the queue.
    pub async fn queue_up(&self, lock: &str) -> Waiting {
        let mutex = self.mutex(lock);
        self.queue_up_for(async move { mutex.lock().await }).await
    }

    /// Starts a task that asks for something, and returns once its contender is in a queue.
    pub async fn queue_up_for<Granted: Send + 'static>(
        &self,
        asking: impl Future<Output = Result<Granted>> + Send + 'static,
    ) -> Waiting<Granted> {
        let joined = self.journal.count(is_joined);
        let task = tokio::spawn(asking);
        self.journal.until_count("a join", joined + 1, is_joined).await;
        task
    }

    /// Takes this, which must be granted soon.
    pub(crate) async fn take(&self, ask: Ask) -> Held {
        soon("the grant", ask.granted(self.keeper.clone())).await.expect("it is granted")
    }

    /// Tries to take this.
    pub(crate) async fn tried(&self, ask: Ask) -> Option<Held> {
        soon("the answer", ask.within(&self.keeper, Wait::No)).await.expect("busy is no error")
    }

    /// Tells whether this is not granted for a while.
    pub(crate) async fn asks_in_vain(&self, ask: Ask) -> bool {
        in_vain(async || ask.within(&self.keeper, Wait::AtMost(IN_VAIN)).await).await
    }

    /// Starts a task that asks for this, and returns once its contender is in the queue.
    pub(crate) async fn queue_up_as(&self, ask: Ask) -> Waiting<Held> {
        self.queue_up_for(ask.granted(self.keeper.clone())).await
    }

    /// Starts a task that asks for this in vain for a limited time, and returns it and that time once its contender is
    /// in the queue. One whose time was up before that is followed by another one, with twice the time.
    pub(crate) async fn queue_up_in_vain(&self, ask: Ask) -> (Waiting<Option<Held>>, Duration) {
        let mut time = GIVES_UP_AFTER;
        let waits = async {
            loop {
                let joined = self.journal.count(is_joined);
                let keeper = self.keeper.clone();
                let mut task = tokio::spawn(async move { ask.within(&keeper, Wait::AtMost(time)).await });
                tokio::select! {
                    biased;
                    () = self.journal.until_count("a join", joined + 1, is_joined) => return (task, time),
                    outcome = &mut task => match outcome.expect("the task does not panic") {
                        Ok(granted) => assert!(granted.is_none(), "it was granted what another one holds"),
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    },
                }
                time *= 2;
            }
        };
        soon("a waiter that joins before its time is up", waits).await
    }

    pub(crate) async fn inflict(&self, fault: Fault) {
        let client = self.client.as_ref().expect("a fixture opened the client");
        client.inflict(fault).await.expect("the harm is done");
    }

    /// Names the harm that an operator does to the contender that waits for this there.
    pub(crate) async fn removal(&self, ask: Ask, position: usize) -> Fault {
        let part = if matches!(ask, Ask::Permits(..)) { Part::Waiters } else { Part::Line };
        let contender = self.shown(LOCK).await.swap_remove(position).id;
        Fault::RemoveContender { queue: part_of(LOCK, part), contender, stands_still: false }
    }

    /// Freezes a lock in whose way no contender stands.
    pub(crate) async fn freeze(&self, lock: &str, kind: LockKind, reason: &str) -> ContenderInfo {
        let frozen = soon("the freeze", self.keeper.admin().freeze(lock, kind, reason, Wait::Forever)).await;
        frozen.expect("it is frozen").expect("no contender is in the way")
    }

    /// Waits until this many contenders are in the queue, which must be [`soon`].
    pub async fn until_contenders(&self, lock: &str, count: usize) {
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

    /// Waits until this client has begun so many waits for a departure.
    pub(crate) async fn until_waits(&self, count: u64) {
        until("the waits", async || self.tap.waits() >= count).await;
    }

    /// Returns how many contenders are in the queue.
    pub async fn contenders(&self, lock: &str) -> usize {
        self.shown(lock).await.len()
    }

    /// Looks at the queue.
    pub(crate) async fn shown(&self, lock: &str) -> Vec<ContenderInfo> {
        self.keeper.contenders(lock).await.expect("the queue can be looked at")
    }
}

/// Returns what a wait with a time ended with. A service that did not answer in that time, and could then not be known
/// to have been asked, is asked again: an answer must come [`soon`].
///
/// # Panics
///
/// If it fails for good.
#[expect(clippy::future_not_send, reason = "a case stays on the thread of its runtime")]
pub async fn answered<Answer>(wait: impl AsyncFn() -> Result<Answer>) -> Answer {
    let waits = async {
        loop {
            match wait().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_transient(), "a timeout is no error: {error:?}"),
            }
        }
    };
    soon("the end of the timeout", waits).await
}

/// Tells whether a wait with a time ended without a grant, as [`answered`].
#[expect(clippy::future_not_send, reason = "a case stays on the thread of its runtime")]
pub(crate) async fn in_vain<Granted>(wait: impl AsyncFn() -> Result<Option<Granted>>) -> bool {
    answered(wait).await.is_none()
}

/// Waits for the grant of a contender's task, which must come [`soon`].
pub async fn granted<Granted>(waiting: Waiting<Granted>) -> Granted {
    let outcome = soon("the grant", waiting).await.expect("the task does not panic");
    outcome.expect("the lock is granted")
}

/// Gives a lock or a permit back and waits until that is certain.
pub(crate) async fn release<Kind>(guard: Guard<Kind>) {
    soon("the release", guard.release()).await.expect("the lock was still held");
}

/// Gives back what was held to the end, and waits until that is certain.
pub(crate) async fn give_back(held: Held) {
    soon("the release", held.release()).await.expect("all of it was still held");
}

/// Gives all of them back.
pub(crate) async fn release_all<Kind>(guards: Vec<Guard<Kind>>) {
    for guard in guards {
        release(guard).await;
    }
}

/// Opens this many clients.
pub(crate) async fn enter_all(fixture: &dyn Fixture, count: usize) -> Vec<Party> {
    let mut parties = Vec::with_capacity(count);
    for _ in 0..count {
        parties.push(Party::enter(fixture).await);
    }
    parties
}

/// Opens as many clients as are named.
pub(crate) async fn parties<const N: usize>(fixture: &dyn Fixture) -> [Party; N] {
    enter_all(fixture, N).await.try_into().expect("so many were opened")
}

/// Waits until all tasks have ended, which must be [`soon`].
pub(crate) async fn all_done(mut tasks: JoinSet<()>) {
    let done = async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no task fails");
        }
    };
    soon("the end of all tasks", done).await;
}
