//! `try_lock`: takes the lock only if it is free.

use crate::case::Case;
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{Party, granted, release};

const ROUNDS: usize = 50;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("try_lock takes a free lock", takes_a_free_one),
        Case::new("try_lock of a taken lock says no and joins nothing", says_no).given_back(),
        Case::new("try_lock never passes a waiter", never_passes),
        Case::new("of many try_locks at the same time at most one takes the lock", at_most_one),
        Case::new("of 20 tries at a free lock at the same time one takes it", one_takes_it),
    ]
}

async fn takes_a_free_one(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..ROUNDS {
        let guard = ann.try_lock("door").await.expect("the lock is free");
        assert!(guard.hold().is_held());
        assert_eq!(ann.contenders("door").await, 1);
        release(guard).await;
    }
}

async fn says_no(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    for _ in 0..ROUNDS {
        assert!(bob.try_lock("door").await.is_none());
        assert_eq!(ann.contenders("door").await, 1);
    }
    assert_eq!(bob.journal.count(is_joined), 0);
    assert_eq!(bob.tap.joins(), 0, "a lock that is taken costs no join");
    release(guard).await;
}

/// The waiter comes before a caller that only tries, whether it has heard of the release or not.
async fn never_passes(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    for _ in 0..ROUNDS {
        let guard = ann.lock("door").await;
        let waiting = bob.queue_up("door").await;
        release(guard).await;
        assert!(eve.try_lock("door").await.is_none(), "try_lock passed a waiter");
        release(granted(waiting).await).await;
    }
}

async fn at_most_one(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    for _ in 0..ROUNDS {
        let try_both = async {
            let trying =
                [ann.clone(), bob.clone()].map(|party| tokio::spawn(async move { party.try_lock("door").await }));
            let mut guards = Vec::new();
            for task in trying {
                guards.extend(task.await.expect("the task does not panic"));
            }
            guards
        };
        let guards = try_both.await;
        assert!(guards.len() <= 1, "both took it");
        for guard in guards {
            release(guard).await;
        }
        ann.until_contenders("door", 0).await;
    }
}

/// Some calls share a keeper, others use another one.
async fn one_takes_it(fixture: &dyn Fixture) {
    let parties = [Party::enter(fixture).await, Party::enter(fixture).await];
    for _ in 0..5 {
        let mut tries = Vec::new();
        for party in parties.iter().cycle().take(20) {
            let party = party.clone();
            tries.push(tokio::spawn(async move { party.try_lock("door").await }));
        }
        let mut guards = Vec::new();
        for task in tries {
            guards.extend(task.await.expect("the task does not panic"));
        }
        assert_eq!(guards.len(), 1, "the first to come finds no contender before it");
        release(guards.remove(0)).await;
        parties[0].until_contenders("door", 0).await;
    }
}
