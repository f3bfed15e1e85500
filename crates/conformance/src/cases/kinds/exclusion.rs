//! One holder at a time, and as many locks as there are names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, granted, release};
use crate::waiting::soon;

const KEEPERS: usize = 3;
const TASKS_PER_KEEPER: usize = 4;
const ROUNDS: u64 = 25;

/// How many locks one keeper must hold at once. A backend that needs a file descriptor for each barely fits into the
/// usual 1024, and has to raise its own limit.
const LOCKS_AT_ONCE: usize = 1_000;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a counter incremented under the lock loses no increment", counter),
        Case::new("a lock held through one keeper is taken for all others", taken_for_others).given_back(),
        Case::new("a task that locks twice through one keeper waits for itself", not_reentrant).strict(),
        Case::new("a thousand different locks are held at once by one keeper", thousand_locks),
    ]
}

/// The increment is not atomic: it reads, lets others run, and writes.
async fn counter(fixture: &dyn Fixture) {
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..KEEPERS {
        let party = Party::enter(fixture).await;
        for _ in 0..TASKS_PER_KEEPER {
            let (party, counter) = (party.clone(), counter.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = party.lock("counter").await;
                    let read = counter.load(Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    counter.store(read + 1, Ordering::Relaxed);
                    release(guard).await;
                }
            });
        }
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.expect("no task fails");
    }
    let increments = (KEEPERS * TASKS_PER_KEEPER) as u64 * ROUNDS;
    assert_eq!(counter.load(Ordering::Relaxed), increments);
}

async fn taken_for_others(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    assert!(bob.try_lock("door").await.is_none());
    assert!(bob.try_lock("window").await.is_some());
    release(guard).await;
    assert!(bob.try_lock("door").await.is_some());
}

async fn not_reentrant(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    assert!(ann.try_lock("door").await.is_none());
    let waiting = ann.queue_up("door").await;
    ann.until_contenders("door", 2).await;
    assert!(!waiting.is_finished());
    release(guard).await;
    release(granted(waiting).await).await;
}

async fn thousand_locks(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut guards = Vec::with_capacity(LOCKS_AT_ONCE);
    for number in 0..LOCKS_AT_ONCE {
        guards.push(ann.lock(&format!("lock {number}")).await);
    }
    assert!(guards.iter().all(|guard| guard.hold().is_held()));
    assert!(bob.try_lock("lock 0").await.is_none());
    assert!(bob.try_lock("lock 999").await.is_none());
    let queues = soon("the names", ann.keeper.queues("lock ")).await.expect("the queues are named");
    assert_eq!(queues.len(), LOCKS_AT_ONCE);
    drop(guards);
    release(bob.lock("lock 999").await).await;
}
