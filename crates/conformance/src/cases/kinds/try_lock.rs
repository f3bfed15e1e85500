//! A call without a wait takes what is asked for only if it is free.

use std::time::Duration;

use lockkeeper_core::{Modes, Wait};

use crate::asking::{Ask, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{Party, give_back, granted, parties};
use crate::waiting::soon;

const ROUNDS: usize = 20;

const ONE: Ask = Ask::Permits(1, 2);
const BOTH: Ask = Ask::Permits(2, 2);

pub(super) fn cases() -> Vec<Case> {
    let mutexes = vec![
        Case::new("try_lock takes a free lock", takes_a_free_one),
        Case::with("try_lock of a taken lock says no and joins nothing", [Ask::Mutex; 2], says_no).given_back(),
        Case::with("try_lock never passes a waiter", [Ask::Mutex; 3], never_passes),
        Case::new("of 20 tries at a free lock at the same time one takes it", one_takes_it),
    ];
    let book = Case::new("try_read and try_write never pass a waiter, and join nothing in vain", async |fixture| {
        for tries in [Ask::Read, Ask::Write] {
            let eve = is_not_passed(fixture, [Ask::Read, Ask::Write, tries]).await;
            assert_eq!((eve.tap.joins(), eve.journal.count(is_joined)), (0, 0));
        }
    });
    let semaphores = vec![
        Case::with("try_acquire of a semaphore without free permits says no and joins nothing", [BOTH, ONE], says_no),
        Case::with("try_acquire never passes a waiter", [ONE, BOTH, ONE], never_passes),
    ];
    let (lead, asks) =
        ("campaign_within(Wait::No) leads if there is no other candidate, and leaves none", [Ask::Lead; 2]);
    [
        using(Modes::MUTEX, mutexes),
        vec![book.given_back().uses(Modes::READ_WRITE)],
        using(Modes::SEMAPHORE, semaphores),
        vec![Case::with(lead, asks, says_no).uses(Modes::ELECTION)],
    ]
    .concat()
}

async fn takes_a_free_one(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..ROUNDS {
        let held = ann.tried(Ask::Mutex).await.expect("the lock is free");
        assert!(held.is_held());
        assert_eq!(ann.contenders(LOCK).await, 1);
        give_back(held).await;
    }
}

/// A wait of no time is no wait.
async fn says_no(fixture: &dyn Fixture, [holds, asks]: [Ask; 2]) {
    let [ann, bob] = parties(fixture).await;
    let waits = [Wait::No, Wait::AtMost(Duration::ZERO)];
    for wait in waits {
        let free = soon("the answer", holds.within(&ann.keeper, wait)).await.expect("it does not fail");
        give_back(free.expect("it is free")).await;
        ann.until_contenders(LOCK, 0).await;
    }
    let held = ann.tried(holds).await.expect("it is free");
    ann.until_contenders(LOCK, held.holds().len()).await;
    for _ in 0..ROUNDS {
        for wait in waits {
            let refused = soon("the answer", asks.within(&bob.keeper, wait)).await.expect("busy is no error");
            assert!(refused.is_none(), "it is taken");
        }
        assert_eq!(ann.contenders(LOCK).await, held.holds().len());
    }
    assert_eq!((bob.tap.joins(), bob.journal.count(is_joined)), (0, 0), "what is taken costs no join");
    give_back(held).await;
}

/// The waiter comes before a caller that only tries, whether it has heard of the release or not. Returns the party that
/// tried.
async fn is_not_passed(fixture: &dyn Fixture, [holds, waits, tries]: [Ask; 3]) -> Party {
    let [ann, bob, eve] = parties(fixture).await;
    for _ in 0..ROUNDS {
        let held = ann.take(holds).await;
        let waiting = bob.queue_up_as(waits).await;
        assert!(eve.tried(tries).await.is_none(), "{tries:?} passed a holder and a waiter");
        give_back(held).await;
        assert!(eve.tried(tries).await.is_none(), "{tries:?} passed a waiter");
        give_back(granted(waiting).await).await;
        ann.until_contenders(LOCK, 0).await;
    }
    eve
}

async fn never_passes(fixture: &dyn Fixture, asks: [Ask; 3]) {
    is_not_passed(fixture, asks).await;
}

/// Some calls share a keeper, others use another one.
async fn one_takes_it(fixture: &dyn Fixture) {
    let parties: [Party; 2] = parties(fixture).await;
    for _ in 0..ROUNDS {
        let mut tries = Vec::new();
        for party in parties.iter().cycle().take(20) {
            let party = party.clone();
            tries.push(tokio::spawn(async move { party.tried(Ask::Mutex).await }));
        }
        let mut held = Vec::new();
        for task in tries {
            held.extend(task.await.expect("the task does not panic"));
        }
        assert_eq!(held.len(), 1, "the first to come finds no contender before it");
        give_back(held.remove(0)).await;
        parties[0].until_contenders(LOCK, 0).await;
    }
}
