//! One holder at a time, and as many locks as there are names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::Modes;
use tokio::task::{JoinSet, yield_now};

use crate::asking::{Ask, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::party::{Party, all_done, enter_all, give_back, granted, parties, release};
use crate::waiting::soon;

const KEEPERS: usize = 3;
const TASKS: usize = 12;
const ROUNDS: u64 = 25;

/// How many locks one keeper must hold at once. A backend that needs a file descriptor for each barely fits into the
/// usual 1024, and has to raise its own limit.
const LOCKS_AT_ONCE: usize = 1_000;

pub(super) fn cases() -> Vec<Case> {
    let mutexes = vec![
        Case::with("a counter incremented under the lock loses no increment", Ask::Mutex, count_up),
        Case::new("a lock held through one keeper is taken for all others", taken_for_others).given_back(),
        Case::new("a task that locks twice through one keeper waits for itself", not_reentrant).strict(),
        Case::new("a thousand different locks are held at once by one keeper", thousand_locks),
    ];
    let one_permit =
        Case::new("a semaphore of one permit excludes like a mutex, and any task may give it back", async |fixture| {
            count_up(fixture, Ask::Permits(1, 1)).await;
        });
    [using(Modes::MUTEX, mutexes), vec![one_permit.uses(Modes::SEMAPHORE)]].concat()
}

/// The increment is not atomic: it reads, lets others run, and writes.
async fn count_up(fixture: &dyn Fixture, ask: Ask) {
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for party in enter_all(fixture, KEEPERS).await.iter().cycle().take(TASKS) {
        let (party, counter) = (party.clone(), counter.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let held = party.take(ask).await;
                let read = counter.load(Ordering::Relaxed);
                yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                // Given back by another task than the one that took it.
                tokio::spawn(give_back(held)).await.expect("the task does not panic");
            }
        });
    }
    all_done(tasks).await;
    assert_eq!(counter.load(Ordering::Relaxed), TASKS as u64 * ROUNDS);
}

async fn taken_for_others(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock(LOCK).await;
    assert!(bob.try_lock(LOCK).await.is_none());
    assert!(bob.try_lock("window").await.is_some());
    release(guard).await;
    assert!(bob.try_lock(LOCK).await.is_some());
}

async fn not_reentrant(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    assert!(ann.tried(Ask::Mutex).await.is_none());
    let waiting = ann.queue_up_as(Ask::Mutex).await;
    ann.until_contenders(LOCK, 2).await;
    assert!(!waiting.is_finished());
    give_back(held).await;
    give_back(granted(waiting).await).await;
}

async fn thousand_locks(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut guards = Vec::with_capacity(LOCKS_AT_ONCE);
    for number in 0..LOCKS_AT_ONCE {
        guards.push(ann.lock(&format!("lock {number}")).await);
    }
    assert!(guards.iter().all(|guard| guard.hold().is_held()));
    assert!(bob.try_lock("lock 0").await.is_none());
    assert!(bob.try_lock("lock 999").await.is_none());
    let queues = soon("the names", ann.keeper.admin().queues("lock ")).await.expect("the queues are named");
    assert_eq!(queues.len(), LOCKS_AT_ONCE);
    drop(guards);
    release(bob.lock("lock 999").await).await;
}
